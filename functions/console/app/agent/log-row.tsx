import type { LogLine } from "./log-line";
import { partsOf } from "./log-search";

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const dated = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeStyle: undefined });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** One line of a log: its time in the viewer's zone, and its text with marks where it matches a search. */
export function LogRow(props: { line: LogLine; pattern: RegExp | undefined; current: boolean }) {
  const { line, pattern, current } = props;
  const kind = ["log-row", line.level ?? "", current ? "current" : ""].filter(Boolean).join(" ");
  return (
    <div class={kind}>
      <LineTime value={line.time} />
      <span class="message">
        {partsOf(line.text, pattern).map((part, i) => (part.match ? <mark key={i}>{part.text}</mark> : part.text))}
        {line.cut ? <span class="cut"> … cut after 16 KiB</span> : null}
      </span>
    </div>
  );
}

function LineTime({ value }: { value: string | null }) {
  const time = new Date(value ?? Number.NaN);
  if (value === null || Number.isNaN(time.getTime())) {
    return (
      <span class="at" title="The cluster does not know the time of this line.">
        —
      </span>
    );
  }
  const today = time.toDateString() === new Date().toDateString();
  return (
    <time class="at" datetime={value} title={`${exact.format(time)} (${value})`}>
      {today ? "" : `${dated.format(time)} `}
      {clock.format(time)}
      <span class="ms">.{String(time.getMilliseconds()).padStart(3, "0")}</span>
    </time>
  );
}
