import { useEffect, useRef } from "preact/hooks";
import { announce } from "../ui/announce";
import { Button } from "../ui/button";
import { Field, Select } from "../ui/field";
import { formatNumber, plural } from "../ui/format";
import { type Level, levels, type LogLine } from "./log-line";
import { type LogQuery, tails } from "./log-query";
import { endedNumber, endedSources } from "./log-reader";
import { clockTime } from "./moment";
import { periods } from "./shared-span";

const levelNames: Record<Level, string> = {
  debug: "All",
  info: "Without debugging",
  warn: "Warnings and errors",
  error: "Errors",
};

const ordinals: Record<number, string> = { 2: "Second", 3: "Third", 4: "Fourth", 5: "Fifth" };

interface Choice {
  query: LogQuery;
  change: (next: Partial<LogQuery>) => void;
}

/** Which part of the log to read. */
export function LogSource({ query, change }: Choice) {
  const since = query.since in periods ? periods : { ...periods, [query.since]: clockTime(new Date(query.since)) };
  const counts = tails.includes(query.tail) ? tails : [query.tail, ...tails];
  return (
    <>
      <Select
        label="Log"
        value={query.source}
        options={[
          { value: "live", label: "Live" },
          { value: "once", label: "As of now" },
          { value: "previous", label: "Before the restart" },
          ...endedSources.slice(1).map((value) => ({ value, label: `${ordinals[endedNumber(value)]} run before` })),
        ]}
        onChange={(value) => change({ source: value as LogQuery["source"] })}
      />
      <Select
        label="From"
        value={query.since}
        options={Object.entries(since).map(([value, label]) => ({ value, label }))}
        onChange={(value) => change({ since: value })}
      />
      <Select
        label="Lines"
        value={String(query.tail)}
        options={counts.map((count) => ({ value: String(count), label: `Last ${formatNumber(count)}` }))}
        onChange={(value) => change({ tail: Number(value) })}
      />
      <Select
        label="Severity"
        value={query.level}
        options={levels.map((value) => ({ value, label: levelNames[value] }))}
        onChange={(value) => change({ level: value as Level })}
      />
    </>
  );
}

/** Finds text in the lines. Enter goes to the previous match, as the newest line is the last one. */
export function LogSearch(props: Choice & { onStep: (by: number) => void }) {
  const { query, change, onStep } = props;
  return (
    <Field label="Search">
      {(control) => (
        <input
          {...control}
          class="input"
          type="search"
          value={query.search}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => change({ search: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key === "Enter") {
              event.preventDefault();
              onStep(event.shiftKey ? 1 : -1);
            }
          }}
        />
      )}
    </Field>
  );
}

/** How many lines match, and the way from one to the next. */
export function LogMatches(
  props: Choice & { matches: LogLine[]; current: LogLine | undefined; onStep: (by: number) => void },
) {
  const { query, change, matches, current, onStep } = props;
  return (
    <div class="row">
      <span class="small quiet number">{matchText(matches, current)}</span>
      <Button kind="plain" icon="up" iconOnly onClick={() => onStep(-1)}>
        Previous match
      </Button>
      <Button kind="plain" icon="down" iconOnly onClick={() => onStep(1)}>
        Next match
      </Button>
      <Button pressed={query.matching} onClick={() => change({ matching: !query.matching })}>
        Only matches
      </Button>
    </div>
  );
}

function matchText(matches: LogLine[], current: LogLine | undefined): string {
  const at = current === undefined ? -1 : matches.indexOf(current);
  if (at !== -1) {
    return `Line ${formatNumber(at + 1)} of ${formatNumber(matches.length)} that match`;
  }
  return matches.length === 0 ? "No line matches" : plural(matches.length, "line matches", "lines match");
}

/** How long a person may pause while typing before the number of matches is said. */
const typingPause = 500;

/** Says how many lines match after a change of the search or a step, but not with each new line. */
export function useMatchAnnouncements(search: string, matches: LogLine[], current: LogLine | undefined): void {
  const text = useRef("");
  text.current = matchText(matches, current);
  const first = useRef(true);
  useEffect(() => {
    if (first.current || search === "") {
      first.current = false;
      return;
    }
    const timer = setTimeout(() => announce(`${text.current}.`), typingPause);
    return () => clearTimeout(timer);
  }, [search, current]);
}

/** The match before or after the current one. Without a current one it is the newest, which a person sees first. */
export function matchFrom(matches: LogLine[], current: LogLine | undefined, by: number): LogLine | undefined {
  const at = current === undefined ? -1 : matches.indexOf(current);
  return at === -1 ? matches.at(-1) : matches[(at + by + matches.length) % matches.length];
}
