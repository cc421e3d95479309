import type { Agent, AgentLogEnded } from "@agents.example/client/schema";
import { useEffect, useMemo, useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { Button } from "../ui/button";
import { Notice } from "../ui/feedback";
import { Time } from "../ui/time";
import { isAtLeast, type LogLine, rawOf } from "./log-line";
import { downloadLines } from "./log-download";
import { type LogState, notRunning } from "./log-reader";
import { type LogQuery, useLogQuery } from "./log-query";
import { useMatches } from "./log-search";
import { LogCount, LogRemark, LogStatus } from "./log-status";
import { LogMatches, LogSearch, LogSource, matchFrom, useMatchAnnouncements } from "./log-toolbar";
import { LogView } from "./log-view";
import { useLog } from "./use-log";

/** What an agent's container writes to its output. */
export function LogsTab({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  return (
    <section class="stack" aria-labelledby="logs-heading">
      {readOnly === undefined ? <Logs agent={agent} /> : <ForAdmins />}
    </section>
  );
}

function ForAdmins() {
  return (
    <>
      <h2 id="logs-heading">Logs</h2>
      <Notice tone="idle" title="Only admins can read logs">
        <p>
          A log may have personal data or keys in it. Ask an admin of the organization to look, or to change your role.
        </p>
      </Notice>
    </>
  );
}

function Logs({ agent }: { agent: Agent }) {
  const { query, request, change } = useLogQuery(agent.id);
  const [attempt, setAttempt] = useState(0);
  const [paused, setPaused] = useState<LogLine[]>();
  // Each choice belongs to a search. An effect that ends it runs later, and could end a choice among the next matches.
  const [choice, setChoice] = useState<{ search: string; line: LogLine | undefined }>();
  const { lines, state: known, ended, retry } = useLog(request, attempt);
  const state = stateOf(agent, known);
  useEffect(() => retry(), [agent.status, agent.dashboard_warming]); // a container may run now
  useEffect(() => {
    setPaused(undefined);
    setChoice(undefined);
  }, [request.source, request.tail, request.since, attempt]);
  const current = choice?.search === query.search ? choice.line : undefined;
  const all = paused ?? lines.list;
  const list = useShown(all, query);
  const matches = useMatches(list, query.search, `${query.level} ${query.raw}`);
  useMatchAnnouncements(query.search, matches, current);
  const rows = query.matching && query.search !== "" ? matches : list;
  const lastShown = all.at(-1)?.seq ?? 0;
  const step = (by: number) => setChoice({ search: query.search, line: matchFrom(matches, current, by) });
  const again = () =>
    request.source === "live" && state.kind !== "failed" ? retry() : setAttempt(attempt + 1);
  return (
    <>
      <div class="page-head">
        <h2 id="logs-heading">Logs</h2>
        <LogStatus state={state} paused={paused !== undefined} />
        <LogCount
          shown={rows.length}
          all={all.length}
          dropped={lines.dropped}
          newer={paused === undefined ? 0 : lines.list.length - 1 - lines.list.findLastIndex((l) => l.seq <= lastShown)}
        />
        <div class="actions">
          {request.source === "live" ? (
            <Button
              icon={paused === undefined ? "paused" : "running"}
              onClick={() => setPaused(paused === undefined ? lines.list : undefined)}
            >
              {paused === undefined ? "Pause the log" : "Resume the log"}
            </Button>
          ) : (
            <Button icon="refresh" busy={state.kind === "connecting"} onClick={() => setAttempt(attempt + 1)}>
              Read again
            </Button>
          )}
          <Button pressed={query.raw} onClick={() => change({ raw: !query.raw })}>
            Raw lines
          </Button>
          <Button pressed={query.wrap} onClick={() => change({ wrap: !query.wrap })}>
            Wrap lines
          </Button>
          <Button
            icon="download"
            unavailable={rows.length === 0 ? "There are no lines to download." : undefined}
            onClick={() => downloadLines(rows, agent.name)}
          >
            Download
          </Button>
        </div>
      </div>
      <div class="log-controls">
        <LogSource query={query} change={change} />
        <LogSearch query={query} change={change} onStep={step} />
      </div>
      {query.search === "" ? null : (
        <LogMatches query={query} change={change} matches={matches} current={current} onStep={step} />
      )}
      <LogRemark
        agent={agent}
        state={state}
        empty={all.length === 0}
        retry={again}
        readOnce={() => change({ source: "once" })}
        readLive={() => change({ source: "live" })}
      />
      {ended === undefined ? null : <Ended ended={ended} />}
      {rows.length === 0 ? (
        <p class="log-none card quiet">{noLines(state.kind, all.length > 0, request.since !== "")}</p>
      ) : (
        <LogView
          key={query.raw ? "raw" : "read"} // their heights differ
          rows={rows}
          label={`Log of ${agent.name}`}
          wrap={query.wrap}
          search={query.search}
          current={current}
        />
      )}
    </>
  );
}

/** The lines of a severity, as the query wants to see them. */
function useShown(lines: LogLine[], { raw, level }: LogQuery): LogLine[] {
  return useMemo(() => {
    const some = level === "debug" ? lines : lines.filter((line) => isAtLeast(line, level));
    return raw ? some.map(rawOf) : some;
  }, [lines, raw, level]);
}

/** When and why the container of the log ended. */
function Ended({ ended }: { ended: AgentLogEnded }) {
  return (
    <p class="small quiet">
      This container ended <Time value={ended.ended_at} /> with exit code {ended.exit_code}
      {ended.reason === "" ? "" : ` (${ended.reason})`}.
    </p>
  );
}

/** What a person sees: the service keeps an answer open for a while after the container has ended. */
function stateOf(agent: Agent, known: LogState): LogState {
  const rests = agent.status === "stopped" || agent.status === "paused";
  return rests && known.kind === "live" ? { kind: "no_container", code: notRunning } : known;
}

function noLines(kind: string, filtered: boolean, limited: boolean): string {
  switch (true) {
    case filtered:
      return "No line matches the search and the severity.";
    case kind === "connecting":
      return "Reading the log …";
    case kind === "no_container" || kind === "failed" || kind === "waiting":
      return "There are no lines.";
    case limited:
      return "The agent has not written a line since then.";
    default:
      return "The agent has not written a line yet.";
  }
}
