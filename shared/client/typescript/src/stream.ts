import type { AnyInit, Transport } from "./client.js";
import { APIError, ConnectionError } from "./error.js";
import { mayPass } from "./retry.js";
import type { Agent, AgentLogLine, AuditEntry, AuditSeal, Event, operations } from "./schema.js";
import { isSettled } from "./wait.js";

type LogQuery = NonNullable<operations["GetAgentLogs"]["parameters"]["query"]>;
type EventQuery = NonNullable<operations["StreamEvents"]["parameters"]["query"]>;
type AuditQuery = NonNullable<operations["ExportAuditLog"]["parameters"]["query"]>;

/** Options of logs: which lines. */
export interface LogOptions extends Pick<LogQuery, "tail" | "since" | "previous"> {
  signal?: AbortSignal | undefined;
}

/** Options of followLogs: with which lines to begin. */
export interface FollowOptions extends Pick<LogQuery, "tail" | "since"> {
  /** The id of the last event that was received; the log continues after it. */
  lastEventId?: string | undefined;
  /** Receives the id of each event before its line is yielded, to continue in another process. */
  onEvent?: ((id: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Reads answers that arrive in parts. Leave the loop, or abort the signal, to end one. */
export interface Streaming {
  /** Yields the lines of an agent's log. If an answer is full, its last line has `truncated: true`. */
  logs(agentId: string, options?: LogOptions): AsyncGenerator<AgentLogLine, void, void>;
  /**
   * Yields the lines of an agent's log as they are written, also across restarts of the agent. When the answer ends or
   * the connection breaks, it continues after the last line, without losing or repeating one that the cluster still
   * keeps. It ends when the agent was stopped, paused or deleted, or is in error. It throws the last error if the API
   * cannot be reached for 2 minutes, and `agent_not_running` if an agent that should run gets no pod for 6 minutes.
   */
  followLogs(agentId: string, options?: FollowOptions): AsyncGenerator<AgentLogLine, void, void>;
  /** Yields the entries of the organization's audit log. */
  exportAuditLog(
    query?: AuditQuery,
    options?: { signal?: AbortSignal | undefined },
  ): AsyncGenerator<AuditEntry, void, void>;
  /** Yields the seals of the organization's audit log, the oldest first. */
  exportAuditSeals(options?: { signal?: AbortSignal | undefined }): AsyncGenerator<AuditSeal, void, void>;
  /**
   * Yields the organization's events after a cursor, and those that are committed then, for at most 10 minutes. The id
   * of the last event is the cursor with which to continue.
   */
  streamEvents(
    query?: EventQuery,
    options?: { signal?: AbortSignal | undefined },
  ): AsyncGenerator<Event, void, void>;
}

const agentPath = "/api/v1/agents/{agent_id}";
const accept = "text/event-stream";
const logPath = "/api/v1/agents/{agent_id}/logs";
const auditPath = "/api/v1/organizations/current/audit-log/export";
const eventPath = "/api/v1/events/stream";
const sealPath = "/api/v1/organizations/current/audit-log/seals";

export function streamsOf(transport: Transport): Streaming {
  return {
    logs: (id, { signal, ...query } = {}) =>
      jsonLines<AgentLogLine>(transport, logPath, { params: { path: { agent_id: id }, query }, signal }),
    followLogs: (id, options = {}) => follow(transport, id, options),
    exportAuditLog: (query = {}, { signal } = {}) =>
      jsonLines<AuditEntry>(transport, auditPath, { params: { query }, signal }),
    streamEvents: (query = {}, { signal } = {}) => jsonLines<Event>(transport, eventPath, { params: { query }, signal }),
    exportAuditSeals: ({ signal } = {}) => jsonLines<AuditSeal>(transport, sealPath, { signal }),
  };
}

async function* jsonLines<T>(transport: Transport, path: string, init: AnyInit): AsyncGenerator<T, void, void> {
  for await (const line of textLines(transport, path, { ...init, accept: "application/x-ndjson" })) {
    if (line !== "") {
      yield JSON.parse(line) as T;
    }
  }
}

// The times of a follower, in milliseconds.
const firstPause = 2000;
const maxPause = 30_000;
// How long a running agent may be without a pod. It gets one when it restarts, and after 5 minutes at most when it waits
// for a node; then the API calls it an error.
const podPatience = 6 * 60_000;
// How long the API may be out of reach.
const outagePatience = 2 * 60_000;

async function* follow(
  transport: Transport,
  id: string,
  { signal, lastEventId, onEvent, ...query }: FollowOptions,
): AsyncGenerator<AgentLogLine, void, void> {
  let last = lastEventId;
  let pause = firstPause;
  const state: FollowState = { lastOpen: undefined, lastAnswer: 0 };
  for (;;) {
    const params = {
      path: { agent_id: id },
      query: { ...query, follow: true },
      header: last === undefined ? {} : { "Last-Event-ID": last },
    };
    let isOpen = false;
    const onResponse = () => {
      isOpen = true;
      pause = firstPause;
    };
    try {
      for await (const event of events(textLines(transport, logPath, { params, signal, accept, onResponse }))) {
        pause = Math.min(event.retry ?? pause, maxPause);
        if (event.data !== undefined && (event.event ?? "message") === "message") {
          if (event.id !== undefined) {
            onEvent?.((last = event.id));
          }
          yield JSON.parse(event.data) as AgentLogLine;
        }
      }
      markOpen(state);
    } catch (error) {
      if (isOpen) {
        markOpen(state);
      }
      if (await hasEnded(transport, id, signal, state, error)) {
        return;
      }
    }
    await transport.sleep(pause, signal);
    pause = Math.min(2 * pause, maxPause);
  }
}

/** What a follower remembers of its streams. */
interface FollowState {
  /** When a stream was open last. */
  lastOpen: number | undefined;
  /** When the API opened a stream, or said that the agent has no pod. */
  lastAnswer: number;
}

function markOpen(state: FollowState): void {
  state.lastOpen = state.lastAnswer = Date.now();
}

// hasEnded reports whether the log has ended after a stream did, or could not be opened, with an error. It throws the
// error if another stream would not help. Otherwise, the log goes on in another stream.
async function hasEnded(
  transport: Transport,
  id: string,
  signal: AbortSignal | undefined,
  state: FollowState,
  error: unknown,
): Promise<boolean> {
  if (state.lastOpen === undefined) {
    throw error;
  }
  if (isGone(error)) {
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

function isGone(error: unknown): boolean {
  return error instanceof APIError && error.status === 404;
}

// hasStopped reports whether an agent without a pod gets no other one by itself.
async function hasStopped(transport: Transport, id: string, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    const agent = (await transport.call("get", agentPath, { params: { path: { agent_id: id } }, signal })) as Agent;
    return agent.status === "deleting" || (agent.status !== "running" && isSettled(agent.status));
  } catch (error) {
    signal?.throwIfAborted();
    return isGone(error);
  }
}

interface ServerEvent {
  id?: string;
  /** The type; absent for an ordinary message. */
  event?: string;
  data?: string;
  retry?: number;
}

// events parses server-sent events. It drops an event whose end did not arrive.
async function* events(lines: AsyncIterable<string>): AsyncGenerator<ServerEvent, void, void> {
  let event: ServerEvent = {};
  for await (const line of lines) {
    if (line === "") {
      yield event;
      event = {};
      continue;
    }
    const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === "data") {
      event.data = event.data === undefined ? value : `${event.data}\n${value}`;
    } else if (field === "id" || field === "event") {
      event[field] = value;
    } else if (field === "retry" && /^\d{1,6}$/.test(value)) {
      event.retry = Number(value);
    }
  }
}

// How many milliseconds a stream of events may send nothing. The API sends a comment every 15 seconds.
const silence = 60_000;

// textLines yields the lines of an answer. It cancels the answer when its reader stops, and a stream of events that is
// silent, because a connection can be lost without an error.
async function* textLines(transport: Transport, path: string, init: AnyInit): AsyncGenerator<string, void, void> {
  const body = (await transport.call("get", path, init)) as ReadableStream<Uint8Array> | null | undefined;
  if (!body) {
    return;
  }
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const dead = init.accept === accept ? setTimeout(() => void reader.cancel(), silence) : undefined;
      const { done, value } = await reader
        .read()
        .catch((cause: unknown) => {
          init.signal?.throwIfAborted();
          throw new ConnectionError("GET", path, cause);
        })
        .finally(() => clearTimeout(dead));
      const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = done ? "" : (lines.pop() ?? "");
      for (const line of lines) {
        yield line.endsWith("\r") ? line.slice(0, -1) : line;
      }
      if (done) {
        return;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it has ended already
  }
}
