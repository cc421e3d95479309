import { followEvents, followLogs } from "./follow.js";
import type { FollowEventsOptions, FollowOptions } from "./follow.js";
import { textLines } from "./lines.js";
import type { AgentLogLine, AuditEntry, AuditSeal, Event, operations } from "./schema.js";
import type { AnyInit, Transport } from "./transport.js";

type LogQuery = NonNullable<operations["GetAgentLogs"]["parameters"]["query"]>;
type EventQuery = NonNullable<operations["StreamEvents"]["parameters"]["query"]>;
type AuditQuery = NonNullable<operations["ExportAuditLog"]["parameters"]["query"]>;

/** Options of logs: which lines. */
export interface LogOptions extends Pick<LogQuery, "tail" | "since" | "previous"> {
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
  /**
   * Yields the organization's events after a cursor, and those that are committed from then on. Without a cursor, it
   * begins with the first event after the iteration began. It continues after the end of an answer, a lost connection
   * and an outage of the API, without losing or repeating an event.
   *
   * It ends only with an error: the signal's reason, that of the first stream if it cannot be opened, or one that a
   * repeat would meet again. Examples are `cursor_expired`, after an outage longer than the API keeps events, and
   * `invalid_token`.
   */
  followEvents(options?: FollowEventsOptions): AsyncGenerator<Event, void, void>;
}

const logPath = "/api/v1/agents/{agent_id}/logs";
const auditPath = "/api/v1/organizations/current/audit-log/export";
const eventPath = "/api/v1/events/stream";
const sealPath = "/api/v1/organizations/current/audit-log/seals";

export function streamsOf(transport: Transport): Streaming {
  return {
    logs: (id, { signal, ...query } = {}) =>
      jsonLines<AgentLogLine>(transport, logPath, { params: { path: { agent_id: id }, query }, signal }),
    followLogs: (id, options = {}) => followLogs(transport, id, options),
    exportAuditLog: (query = {}, { signal } = {}) =>
      jsonLines<AuditEntry>(transport, auditPath, { params: { query }, signal }),
    streamEvents: (query = {}, { signal } = {}) =>
      jsonLines<Event>(transport, eventPath, { params: { query }, signal }),
    followEvents: (options = {}) => followEvents(transport, options),
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
