import type { Agent, AuditEntry, Event, SecretOperation } from "@agents.example/client/schema";
import { useEffect, useRef } from "preact/hooks";
import { useMe, useReadOnly } from "../account";
import { serverNow } from "../api/clock";
import { type Pages, usePages } from "../api/pages";
import { useKeyNames } from "../organization/key-names";
import { href, navigate, useRoute } from "../router";
import { Button, LinkButton } from "../ui/button";
import { Failure, Notice, Waiting } from "../ui/feedback";
import { Checkbox, Select } from "../ui/field";
import { formatNumber } from "../ui/format";
import { Icon } from "../ui/icons";
import { useRemembered } from "../ui/remembered";
import { formatDuration, Time } from "../ui/time";
import { auditEntry, type Entry, operationEntry, recordEntries } from "./history-entry";
import { eventEntry } from "./history-event";
import { completeSince, newest, useEvents } from "./history-events";
import { tellStory } from "./history-story";
import { logHref } from "./marker-list";
import { agentPath, tabHref } from "./paths";
import { chooseSpan, millisecondsOf, periods, useSpan } from "./shared-span";

const every = 10_000;

/** What happened to the agent, newest first. */
export function HistoryTab({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const enterprise = useMe().organization?.plan === "enterprise";
  switch (true) {
    case readOnly !== undefined:
      return <OfMember agent={agent} />;
    case enterprise:
      return <WithAuditLog agent={agent} />;
    default:
      return <WithoutAuditLog agent={agent} />;
  }
}

/** A list of the service as a part of the history. */
interface Source {
  pages: Pages<unknown>;
  entries: Entry[];
}

const useOperations = (agent: Agent): Source => {
  const pages = usePages<SecretOperation>(`${agentPath(agent.id)}/secret-operations`, { every });
  return { pages, entries: (pages.data ?? []).map(operationEntry) };
};

function WithAuditLog({ agent }: { agent: Agent }) {
  const query = { target_id: agent.id };
  const audits = usePages<AuditEntry>("/api/v1/organizations/current/audit-log", { query, every });
  const names = useKeyNames();
  const calls = (audits.data ?? []).map((audit) => auditEntry(audit, names));
  const sources = [useOperations(agent), { pages: audits, entries: calls }];
  return <Entries agent={agent} sources={sources} record={recordEntries(agent, false)} />;
}

function WithoutAuditLog({ agent }: { agent: Agent }) {
  const sources = [useOperations(agent)];
  const compare = (
    <LinkButton href={href(["billing"])} icon="billing">
      Compare the plans
    </LinkButton>
  );
  return (
    <div class="stack">
      <Notice tone="idle" title="The Enterprise plan also shows who did what" actions={compare}>
        The service writes an audit log on every plan and keeps it for 30 days, but only organizations on the Enterprise
        plan can read it. Below is what there is without it: the newest events of the last 30 days, and the
        operations on secrets.
      </Notice>
      <Entries agent={agent} sources={sources} record={recordEntries(agent, true)} />
    </div>
  );
}

function OfMember({ agent }: { agent: Agent }) {
  return (
    <div class="stack">
      <Notice tone="idle" title="You see a part of the history">
        Only admins see the operations on secrets, and who did what.
      </Notice>
      <Entries agent={agent} sources={[]} record={recordEntries(agent, true)} />
    </div>
  );
}

function Entries(props: { agent: Agent; sources: Source[]; record: Entry[] }) {
  const { events, live } = useEvents(props.agent);
  const pages = { ...live, more: false, loading: false, loadMore: live.refresh };
  const [own, setOwn] = useRemembered("history-own");
  const { query } = useRoute();
  const at = query.get("at");
  const span = useSpan(props.agent.id);
  const since = at === null ? (query.get("since") ?? span) : ""; // a link to a time shows what was before, too
  const choose = (next: string) => {
    chooseSpan(props.agent.id, next);
    navigate(tabHref(props.agent.id, "history", { since: next }), { replace: true });
  };
  const sources = [...props.sources, { pages, entries: events.toReversed().map(eventEntry) }];
  const record = withoutEvents(props.record, events);
  const failed = sources.filter(({ pages }) => pages.error !== undefined);
  if (sources.some(({ pages }) => pages.data === undefined)) {
    return failed.length > 0 ? <Failures sources={failed} /> : <Waiting what="the history" />;
  }
  // Below the oldest entry of a list that has older pages, something may be missing, so nothing older is shown yet.
  const from = Math.max(-Infinity, ...sources.map(loadedFrom));
  const next = sources.find((source) => source.pages.more && loadedFrom(source) === from);
  const all = tellStory([...record, ...sources.flatMap(({ entries }) => entries)]).filter(({ at }) => at >= from);
  const begin = serverNow() - (millisecondsOf(since) ?? Infinity);
  const shown = all.filter((entry) => (own || !entry.own) && entry.at >= begin);
  const hidden = all.filter((entry) => entry.own).length;
  return (
    <>
      <Failures sources={failed} />
      <section class="card" aria-label="What happened">
        <div class="head">
          <h2>What happened</h2>
          <span class="actions history-tools">
            <Select
              label="From"
              value={since in periods ? since : ""}
              options={Object.entries(periods).map(([value, label]) => ({ value, label }))}
              onChange={choose}
            />
            <Checkbox
              label={`Show what the control plane did (${formatNumber(hidden)})`}
              checked={own}
              onChange={setOwn}
            />
          </span>
        </div>
        {shown.length === 0 ? (
          <p class="body quiet">{since === "" ? "Nothing is recorded yet." : "Nothing happened since then."}</p>
        ) : null}
        <ol class="history">
          {shown.map((entry) => (
            <Row key={entry.id} entry={entry} agent={props.agent} here={entry === nearest(shown, at)} />
          ))}
        </ol>
        {begin < completeSince(events) ? (
          <p class="body quiet">Only the newest {newest} events are shown.</p>
        ) : null}
        {next === undefined ? null : (
          <div class="body">
            <Button icon="down" busy={next.pages.loading} onClick={next.pages.loadMore}>
              Load older entries
            </Button>
          </div>
        )}
      </section>
    </>
  );
}

/** The entry that a link is about: the one nearest to its time. */
function nearest(entries: Entry[], at: string | null): Entry | undefined {
  const time = Date.parse(at ?? "");
  const distance = (entry: Entry) => Math.abs(entry.at - time);
  return Number.isNaN(time) || entries.length === 0
    ? undefined
    : entries.reduce((best, entry) => (distance(entry) < distance(best) ? entry : best));
}

/** What the record remembers from before the events that are read. */
function withoutEvents(record: Entry[], events: Event[]): Entry[] {
  const [first] = events;
  if (first === undefined) {
    return record;
  }
  return first.type === "agent.created" ? [] : record.filter(({ at }) => at < Date.parse(first.created_at));
}

/** From when on a list is complete. */
const loadedFrom = ({ pages, entries }: Source): number =>
  pages.more ? Math.min(...entries.map(({ at }) => at)) : -Infinity;

function Failures({ sources }: { sources: Source[] }) {
  return (
    <>
      {sources.map(({ pages }, position) =>
        pages.error === undefined ? null : (
          <Failure
            key={position}
            error={pages.error}
            title="A part of the history could not be loaded"
            busy={pages.loading}
            retry={pages.refresh}
          />
        ),
      )}
    </>
  );
}

function Row({ agent, entry, here }: { agent: Agent; entry: Entry; here: boolean }) {
  const admin = useReadOnly() === undefined;
  const { icon, tone, title, outcome, details, parts = [] } = entry;
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (here) {
      element.current?.scrollIntoView({ block: "center" });
    }
  }, [here]);
  return (
    <li ref={element} class={here ? "here" : undefined} aria-current={here ? "true" : undefined}>
      <span class={`mark tone-${tone}`}>
        <Icon name={icon} />
      </span>
      <div class="what">
        <div class="line">
          <h3>{title}</h3>
          {outcome === "" ? null : <span class={`badge tone-${tone}`}>{outcome}</span>}
        </div>
        {details.length === 0 ? null : <p class="small quiet">{details.map(sentence).join(" ")}</p>}
        {here && admin ? (
          <p class="small">
            <a href={logHref(agent.id, entry.at / 1_000)}>Read the log from then on</a>
          </p>
        ) : null}
        {parts.length === 0 ? null : (
          <details class="small">
            <summary>How it went</summary>
            <ol class="stack-tight">
              {parts.map((part) => (
                <Part key={part.id} part={part} from={entry.at} />
              ))}
            </ol>
          </details>
        )}
      </div>
      <span class="small quiet">
        <Time value={entry.at} />
      </span>
    </li>
  );
}

function Part({ part: { at, title, outcome, details }, from }: { part: Entry; from: number }) {
  return (
    <li>
      <span class="quiet">After {formatDuration(Math.max(0, at - from))}:</span>{" "}
      {[title, outcome, ...details].filter(Boolean).map(sentence).join(" ")}
    </li>
  );
}

const sentence = (words: string): string => (/[.!?]$/.test(words) ? words : `${words}.`);
