import { APIError, ConnectionError, isNotFound } from "./error.js";
import { eventStream, serverEvents, textLines } from "./lines.js";
import type { ServerEvent } from "./lines.js";
import { mayPass, outagePatience } from "./retry.js";
import type { Agent, AgentLogLine, Event, operations } from "./schema.js";
import type { AnyInit, Transport } from "./transport.js";
import { isSettled } from "./wait.js";

type LogQuery = NonNullable<operations["GetAgentLogs"]["parameters"]["query"]>;
type EventQuery = NonNullable<operations["StreamEvents"]["parameters"]["query"]>;

/** Options of followLogs: with which lines to begin. */
export interface FollowOptions extends Pick<LogQuery, "tail" | "since"> {
  /** The id of the last event that was received; the log continues after it. */
  lastEventId?: string | undefined;
  /** Receives the id of each event before its line is yielded, to continue in another process. */
  onEvent?: ((id: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Options of followEvents: which events. */
export interface FollowEventsOptions extends Pick<EventQuery, "agent_id" | "type"> {
  /** The id of the last event that was received; the stream continues after it. */
  cursor?: string | undefined;
  signal?: AbortSignal | undefined;
}

const agentPath = "/api/v1/agents/{agent_id}";
const logPath = "/api/v1/agents/{agent_id}/logs";
const eventPath = "/api/v1/events";

// The times of a follower, in milliseconds.
const firstPause = 2000;
const maxPause = 30_000;
// How long a running agent may be without a pod. It gets one when it restarts, and after 5 minutes at most when it
// waits for a node; then the API calls it an error.
const podPatience = 6 * 60_000;

/** Follows the log of an agent. */
export function followLogs(
  transport: Transport,
  id: string,
  { signal, lastEventId, onEvent, ...query }: FollowOptions,
): AsyncGenerator<AgentLogLine, void, void> {
  return follow(transport, {
    path: logPath,
    params: { path: { agent_id: id }, query: { ...query, follow: true } },
    lastId: lastEventId,
    onId: onEvent,
    signal,
    isItem: ({ event = "message" }) => event === "message", // others are for later versions of the API
    hasEnded: (state, error) => logHasEnded(transport, id, signal, state, error),
  });
}

/** Follows the events of the organization. */
export async function* followEvents(
  transport: Transport,
  { signal, cursor, ...query }: FollowEventsOptions,
): AsyncGenerator<Event, void, void> {
  yield* follow<Event>(transport, {
    path: `${eventPath}/stream`,
    params: { query },
    lastId: cursor || (await newestCursor(transport, signal)),
    signal,
    isItem: () => true,
    hasEnded: async (state, error) => {
      if (error !== undefined && (state.lastOpen === undefined || !mayPass(error))) {
        throw error;
      }
      return false;
    },
  });
}

// newestCursor returns the cursor after the newest event. A stream also begins there, but it can break off before it
// has sent its first cursor.
async function newestCursor(transport: Transport, signal: AbortSignal | undefined): Promise<string | undefined> {
  let cursor: string | null = null;
  const onResponse = ({ headers }: Response) => (cursor = headers.get("X-Event-Cursor"));
  await transport.call("get", eventPath, { params: { query: { limit: 1 } }, signal, onResponse });
  return cursor ?? undefined;
}

/** What is followed over many streams. */
interface Followed {
  path: string;
  params: NonNullable<AnyInit["params"]>;
  /** The id after which the first stream begins. */
  lastId?: string | undefined;
  /** Receives the id after which the next stream would continue. */
  onId?: ((id: string) => void) | undefined;
  signal?: AbortSignal | undefined;
  /** Reports whether an event with data is an item to yield. */
  isItem: (event: ServerEvent) => boolean;
  /**
   * Reports whether there is nothing more to follow after a stream ended, or could not be opened, with an error. It
   * throws the error if another stream would not help. Otherwise, another stream continues.
   */
  hasEnded: (state: FollowState, error: unknown) => Promise<boolean>;
}

/** What a follower remembers of its streams. */
interface FollowState {
  /** When a stream was open last. */
  lastOpen: number | undefined;
  /** When the API opened a stream, or said that the agent has no pod. */
  lastAnswer: number;
}

async function* follow<T>(transport: Transport, followed: Followed): AsyncGenerator<T, void, void> {
  const { path, signal } = followed;
  let { lastId } = followed;
  let pause = firstPause;
  const state: FollowState = { lastOpen: undefined, lastAnswer: 0 };
  const markOpen = () => (state.lastOpen = state.lastAnswer = Date.now());
  for (;;) {
    const params = { ...followed.params, header: lastId ? { "Last-Event-ID": lastId } : {} };
    let isOpen = false;
    const onResponse = ({ headers, body }: Response) => {
      if (!headers.get("Content-Type")?.startsWith(eventStream)) {
        void body?.cancel();
        throw new ConnectionError("GET", path, new Error("The answer is no stream of events. Check the base URL."));
      }
      isOpen = true;
      pause = firstPause;
    };
    const init = { params, signal, accept: eventStream, onResponse };
    let failed: unknown;
    try {
      for await (const event of serverEvents(textLines(transport, path, init))) {
        pause = Math.min(event.retry ?? pause, maxPause);
        if (event.id !== undefined) {
          lastId = event.id; // also without data
          followed.onId?.(lastId);
        }
        if (event.data !== undefined && followed.isItem(event)) {
          yield JSON.parse(event.data) as T;
        }
      }
    } catch (error) {
      failed = error;
    }
    if (isOpen) {
      markOpen();
    }
    if (await followed.hasEnded(state, failed)) {
      return;
    }
    await transport.sleep(pause, signal);
    pause = Math.min(2 * pause, maxPause);
  }
}

// A log ends when its agent gets no other pod by itself.
async function logHasEnded(
  transport: Transport,
  id: string,
  signal: AbortSignal | undefined,
  state: FollowState,
  error: unknown,
): Promise<boolean> {
  if (error === undefined) {
    return false;
  }
  if (state.lastOpen === undefined) {
    throw error;
  }
  if (isNotFound(error)) {
    return true;
  }
  if (error instanceof APIError && error.code === "agent_not_running") {
    state.lastAnswer = Date.now();
    if (await hasStopped(transport, id, signal)) {
      return true;
    }
    if (Date.now() - state.lastOpen > podPatience) {
      throw error;
    }
  } else if (!mayPass(error) || Date.now() - state.lastAnswer > outagePatience) {
    throw error;
  }
  return false;
}

// hasStopped reports whether an agent without a pod gets no other one by itself.
async function hasStopped(transport: Transport, id: string, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    const agent = (await transport.call("get", agentPath, { params: { path: { agent_id: id } }, signal })) as Agent;
    return agent.status === "deleting" || (agent.status !== "running" && isSettled(agent.status));
  } catch (error) {
    signal?.throwIfAborted();
    return isNotFound(error);
  }
}
