import type { AuditEntry, AuditChange } from "@agents.example/client/schema";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { actionText } from "../events/action-text";
import { actorText } from "../events/actor-text";
import { valueText } from "../events/change-text";
import { fieldText } from "../events/fields";
import { outcomeText } from "../events/outcome-text";
import { href } from "../router";
import { Badge } from "../ui/badge";
import { CopyButton } from "../ui/copy";
import type { Tone } from "../ui/tone";
import { Time } from "../ui/time";
import { addressOf, type Filter } from "./audit-query";
import { type Column, RecordTable } from "./table";

/** One entry: what happened in a line, and the rest when it is opened. */
export function Entry({ entry, filter, names }: { entry: AuditEntry; filter: Filter; names: Map<string, string> }) {
  const [open, setOpen] = useState(false);
  const who = actorText(entry.actor, names);
  return (
    <li class="entry">
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="what">
            <strong>{actionText(entry.action)}</strong>
            {entry.target.name === null && entry.target.id === null ? null : (
              <span>{entry.target.name ?? `${typeText(entry.target.type)} ${short(entry.target.id ?? "")}`}</span>
            )}
          </span>
          <span class="who quiet cut" title={who}>
            {who}
          </span>
          <span class="outcome">
            <Outcome entry={entry} />
          </span>
          <span class="when quiet">
            <Time value={entry.created_at} />
          </span>
        </summary>
        {open ? <Details entry={entry} filter={filter} who={who} /> : null}
      </details>
    </li>
  );
}

function Outcome({ entry }: { entry: AuditEntry }) {
  const tone: Tone = entry.outcome === "succeeded" ? "good" : entry.outcome === "begun" ? "warn" : "bad";
  const text = `${tone === "bad" ? "Refused: " : ""}${outcomeText(entry.outcome)}`;
  return (
    <span class="row tight">
      <Badge tone={tone} icon={tone === "good" ? "check" : "error"} text={text} />
      {entry.replayed ? <span class="badge">Repeat</span> : null}
    </span>
  );
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

function Details({ entry, filter, who }: { entry: AuditEntry; filter: Filter; who: string }) {
  const { actor, target } = entry;
  return (
    <div class="details stack">
      {entry.outcome === "begun" ? (
        <p>The call was interrupted. It made the changes below, and what followed is unknown.</p>
      ) : null}
      {entry.replayed ? <p>The call repeated an earlier one, got the same answer, and changed nothing.</p> : null}
      <Changes changes={entry.changes} />
      <dl class="facts">
        <Fact name="Time">
          {exact.format(new Date(entry.created_at))} <span class="quiet">({entry.created_at})</span>
        </Fact>
        <Fact name="Who">
          {who}, {actor.role}
          <Narrow to={{ ...filter, actor_id: actor.id }}>Only this caller</Narrow>
        </Fact>
        <Fact name="Action">
          {actionText(entry.action)} <code>{entry.action}</code>
          <Narrow to={{ ...filter, action: entry.action }}>Only this action</Narrow>
        </Fact>
        <Fact name="Object">
          {typeText(target.type)}
          {target.id === null ? null : <code>{target.id}</code>}
          {target.type === "agent" && target.id !== null ? <a href={href(["agents", target.id])}>Open</a> : null}
          {target.id === null ? null : <Narrow to={{ ...filter, target_id: target.id }}>Only this object</Narrow>}
        </Fact>
        <Fact name="Outcome">
          {outcomeText(entry.outcome)} <code>{entry.outcome}</code>
          <Narrow to={{ ...filter, outcome: entry.outcome }}>Only this outcome</Narrow>
        </Fact>
        <Fact name="Address">{entry.ip}</Fact>
        <Fact name="Client">{entry.user_agent === "" ? "not given" : entry.user_agent}</Fact>
        <Fact name="Request">
          <code>{entry.request_id}</code>
          <CopyButton text={entry.request_id} what="request ID" />
        </Fact>
      </dl>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd class="row">{children}</dd>
    </>
  );
}

function Narrow({ to, children }: { to: Filter; children: string }) {
  return (
    <a class="small" href={addressOf(to)}>
      {children}
    </a>
  );
}

function Changes({ changes }: { changes: AuditChange[] }) {
  if (changes.length === 0) {
    return <p class="quiet">It changed no field.</p>;
  }
  const columns: Column<AuditChange>[] = [
    { head: "Field", cell: ({ field }) => <span title={field}>{fieldText(field)}</span> },
    { head: "Before", cell: ({ field, old }) => <Value field={field} value={old} /> },
    { head: "After", cell: ({ field, new: next }) => <Value field={field} value={next} /> },
  ];
  return (
    <div class="changes">
      <RecordTable label="Changes" columns={columns} rows={changes} id={(change) => change.field} />
    </div>
  );
}

const Value = ({ field, value }: { field: string; value: string | null }) =>
  value === null ? <span class="quiet">none, or not shown</span> : <span title={value}>{valueText(field, value)}</span>;

const short = (id: string): string => (id.length > 12 ? `${id.slice(0, 8)}…` : id);

const typeText = (type: string): string => (type === "api_key" ? "API key" : type.replaceAll("_", " "));
