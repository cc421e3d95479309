import { navigate, useRoute } from "../router";
import { agentPath, tabHref } from "./paths";
import { type Level, levels } from "./log-line";
import { chooseSpan, useSpan } from "./shared-span";
import { type LogRequest, type LogSourceName, endedSources } from "./log-reader";

/** What the address says about the log to show, so that a link to it shows the same. */
export interface LogQuery {
  source: LogRequest["source"];
  tail: number;
  since: string;
  search: string;
  /** Whether only lines that match the search are shown. */
  matching: boolean;
  wrap: boolean;
  /** Whether lines of JSON are shown as they are. */
  raw: boolean;
  /** How bad the lines are at least that are shown. */
  level: Level;
}

const defaultTail = 1_000;
const maxTail = 5_000;

export const tails = [200, defaultTail, maxTail];

/** The log that the address names, and how to change that. */
export function useLogQuery(agentID: string): {
  query: LogQuery;
  request: LogRequest;
  change: (next: Partial<LogQuery>) => void;
} {
  const parameters = useRoute().query;
  const span = useSpan(agentID);
  const named = parameters.get("source");
  const source = ["once", ...endedSources].find((name) => name === named) as LogSourceName | undefined;
  const tail = Number(parameters.get("tail"));
  const query: LogQuery = {
    source: source ?? "live",
    tail: Number.isInteger(tail) && tail >= 1 && tail <= maxTail ? tail : defaultTail,
    since: parameters.get("since") ?? span,
    search: parameters.get("search") ?? "",
    matching: parameters.get("matching") === "1",
    wrap: parameters.get("wrap") !== "0",
    raw: parameters.get("raw") === "1",
    level: levels.find((level) => level === parameters.get("level")) ?? "debug",
  };
  const change = (next: Partial<LogQuery>) => {
    if (next.since !== undefined) {
      chooseSpan(agentID, next.since);
    }
    const { source, tail, since, search, matching, wrap, raw, level } = { ...query, ...next };
    const address = tabHref(agentID, "logs", {
      source: source === "live" ? undefined : source,
      tail: tail === defaultTail ? undefined : String(tail),
      since,
      search,
      matching: matching ? "1" : undefined,
      wrap: wrap ? undefined : "0",
      raw: raw ? "1" : undefined,
      level: level === "debug" ? undefined : level,
    });
    navigate(address, { replace: true });
  };
  const request = { path: `${agentPath(agentID)}/logs`, source: query.source, tail: query.tail, since: query.since };
  return { query, request, change };
}
