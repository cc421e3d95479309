import { linesOf } from "@agents.example/client/lines";
import type { Agent, AgentLogLine } from "@agents.example/client/schema";
import { useEffect, useState } from "preact/hooks";
import { send } from "../api/client";
import { CallError } from "../api/errors";
import { type LogLine, lineOf } from "./log-line";
import { LogRow } from "./log-row";
import { notRestarted } from "./log-reader";
import { agentPath, tabHref } from "./paths";

const count = 5;

/** How often the last lines are read while a page shows them, in milliseconds. */
const every = 15_000;

export interface Tail {
  lines: LogLine[];
  /** Whether the lines are those of a container that has ended. */
  ended: boolean;
}

/** The last lines of a container, with a link to the rest. */
export function LogTail({ agent, tail: { lines, ended } }: { agent: Agent; tail: Tail }) {
  return (
    <div class="tail">
      <div class="row small">
        <h3>{ended ? "What it wrote last, before it ended" : "What it wrote last"}</h3>
        <a href={tabHref(agent.id, "logs", { source: ended ? "previous" : undefined })}>
          {ended ? "Read the previous run’s log" : "Read the log"}
        </a>
      </div>
      <div class="tail-lines" role="group" aria-label="The last lines of the log" tabIndex={0}>
        {lines.map((line) => (
          <LogRow key={line.seq} line={line} pattern={undefined} current={false} />
        ))}
      </div>
    </div>
  );
}

/** The last lines of the container before the last restart, or of the running one. Undefined without lines. */
export function useTail(agent: Agent, log: "previous-logs" | "logs" | undefined): Tail | undefined {
  const [tail, setTail] = useState<Tail>();
  useEffect(() => {
    if (log === undefined) {
      setTail(undefined);
      return;
    }
    const stopping = new AbortController();
    const read = async () => {
      try {
        const next = await readTail(agent.id, log === "previous-logs", stopping.signal);
        setTail(next.lines.length === 0 ? undefined : next);
      } catch {
        // The page of the log says why it cannot be read.
      }
    };
    void read();
    const timer = setInterval(() => document.visibilityState === "visible" && void read(), every);
    return () => {
      stopping.abort();
      clearInterval(timer);
    };
  }, [agent.id, agent.updated_at, agent.status, log]);
  return tail;
}

/** Reads the last lines. A container that has not restarted has no earlier ones. */
async function readTail(id: string, previous: boolean, signal: AbortSignal): Promise<Tail> {
  try {
    const response = await send(`${agentPath(id)}/logs`, { query: { tail: count, previous }, signal });
    const lines: LogLine[] = [];
    for await (const text of linesOf(response.body)) {
      if (text !== "") {
        lines.push(lineOf(lines.length, JSON.parse(text) as AgentLogLine));
      }
    }
    return { lines, ended: previous };
  } catch (cause) {
    if (previous && cause instanceof CallError && cause.code === notRestarted) {
      return readTail(id, false, signal);
    }
    throw cause;
  }
}
