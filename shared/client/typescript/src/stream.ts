import type { AnyInit, Transport } from "./client.js";
import { APIError, ConnectionError } from "./error.js";
import { mayPass } from "./retry.js";
import type { Agent, AgentLogLine, AuditEntry, operations } from "./schema.js";
import { isSettled } from "./wait.js";

type LogQuery = NonNullable<operations["GetAgentLogs"]["parameters"]["query"]>;
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
   * keeps. It ends when the agent is stopped, paused or deleted.
   */
  followLogs(agentId: string, options?: FollowOptions): AsyncGenerator<AgentLogLine, void, void>;
  /** Yields the entries of the organization's audit log. */
  exportAuditLog(
    query?: AuditQuery,
    options?: { signal?: AbortSignal | undefined },
  ): AsyncGenerator<AuditEntry, void, void>;
}

const agentPath = "/api/v1/agents/{agent_id}";
const logPath = "/api/v1/agents/{agent_id}/logs";
const auditPath = "/api/v1/organizations/current/audit-log/export";

export function streamsOf(transport: Transport): Streaming {
  return {
    logs: (id, { signal, ...query } = {}) =>
      jsonLines<AgentLogLine>(transport, logPath, { params: { path: { agent_id: id }, query }, signal }),
    followLogs: (id, options = {}) => follow(transport, id, options),
    exportAuditLog: (query = {}, { signal } = {}) =>
      jsonLines<AuditEntry>(transport, auditPath, { params: { query }, signal }),
  };
}

async function* jsonLines<T>(transport: Transport, path: string, init: AnyInit): AsyncGenerator<T, void, void> {
  for await (const line of textLines(transport, path, { ...init, accept: "application/x-ndjson" })) {
    if (line !== "") {
      yield JSON.parse(line) as T;
    }
  }
}

async function* follow(
  transport: Transport,
  id: string,
  { signal, lastEventId, onEvent, ...query }: FollowOptions,
): AsyncGenerator<AgentLogLine, void, void> {
  let last = lastEventId;
  let connected = false;
  let pause = 2000;
  for (let failures = 0; ; await transport.sleep(pause, signal)) {
    const params = {
      path: { agent_id: id },
      query: { ...query, follow: true },
      header: last === undefined ? {} : { "Last-Event-ID": last },
    };
    try {
      const init = { params, signal, accept: "text/event-stream", onResponse: () => (connected = true) };
      for await (const event of events(textLines(transport, logPath, init))) {
        pause = event.retry ?? pause;
        if (event.data !== undefined && (event.event ?? "message") === "message") {
          failures = 0;
          if (event.id !== undefined) {
            onEvent?.((last = event.id));
          }
          yield JSON.parse(event.data) as AgentLogLine;
        }
      }
    } catch (error) {
      const hasNoPod = error instanceof APIError && error.code === "agent_not_running";
      if (connected && (isGone(error) || (hasNoPod && (await hasStopped(transport, id, signal))))) {
        return;
      }
      if (!connected || !(hasNoPod || mayPass(error)) || ++failures >= transport.attempts) {
        throw error;
      }
    }
  }
}

function isGone(error: unknown): boolean {
  return error instanceof APIError && error.status === 404;
}

// hasStopped reports whether an agent without a pod gets no other one by itself.
async function hasStopped(transport: Transport, id: string, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    const agent = (await transport.call("get", agentPath, { params: { path: { agent_id: id } }, signal })) as Agent;
    return agent.status !== "running" && isSettled(agent.status);
  } catch (error) {
    if (isGone(error)) {
      return true;
    }
    throw error;
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
      const dead = init.accept === "text/event-stream" ? setTimeout(() => void reader.cancel(), silence) : undefined;
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
