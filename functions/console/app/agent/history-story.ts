// Tells what happened to an agent: the service has some of it twice or more, in its audit log, its events and its
// operations on secrets, and much of it is about how the control plane works.

import { ownFields } from "../events/fields";
import type { Entry } from "./history-entry";

/** The events that tell the same as a call. */
const told: Record<string, string[]> = {
  "audit CreateAgent": ["event agent.created"],
  "audit UpdateAgent": ["event agent.updated", "event agent.image_updated"],
  "audit MigrateAgentSandbox": ["event agent.updated"],
  "audit WakeAgentAt": ["event agent.updated"],
  "audit DeleteAgent": ["event agent.deleting"],
  "audit RestartAgent": ["event agent.provisioning"],
  "audit StartAgent": ["event agent.provisioning"],
  "audit ResumeAgent": ["event agent.provisioning", "event agent.woken"],
  "audit PauseAgent": ["event agent.paused"],
  "audit SleepAgent": ["event agent.asleep"],
  "audit RestoreAgent": ["event agent.provisioning"],
  "audit StopAgent": ["event agent.stopped"],
};

/** The operations that a call begins. */
const begun: Record<string, string[]> = {
  "audit UpdateAgent": ["operation set", "operation delete"],
  "audit CreateAgent": ["operation set"],
  "audit PutSecrets": ["operation set", "operation delete"],
  "audit DeleteSecret": ["operation delete"],
  "audit RotateCredentials": ["operation rotate"],
};

/** How long the commit of a call may take after its beginning, in milliseconds. */
const commitTime = 30_000;

/** How far the clocks of the service's instances may differ, in milliseconds. */
const skew = 1_000;

/** The events of the steps of a start, and of what the control plane writes by itself. */
const isOwn = ({ kind, tone, fields }: Entry): boolean =>
  (kind === "event agent.stage_changed" && tone !== "bad") ||
  (kind === "event agent.updated" && fields !== undefined && fields.every((field) => ownFields.includes(field))) ||
  kind.startsWith("event secret_operation.");

/** The entries as a story, the newest first: each thing once, and what only the control plane did marked as that. */
export function tellStory(entries: Entry[]): Entry[] {
  const left = new Set(entries.toSorted((a, b) => a.at - b.at));
  const rows: Entry[] = [];
  const take = (fits: (entry: Entry) => boolean, most = Infinity): Entry[] => {
    const taken = [...left].filter(fits).slice(0, most);
    taken.forEach((entry) => left.delete(entry));
    return taken;
  };
  const after = (audit: Entry) => ({ at }: Entry) => at >= audit.at - skew && at <= audit.at + commitTime;
  const audits = take(({ kind }) => kind.startsWith("audit"));
  const calls = audits.map((audit) => {
    const follows = after(audit);
    const events = (told[audit.kind] ?? []).flatMap((kind) =>
      take((entry) => entry.kind === kind && !isOwn(entry) && follows(entry) && agree(audit, entry), 1));
    return { audit, follows, events };
  });
  const operations = new Map(take(({ kind }) => kind.startsWith("operation")).map((one) => [one, parted(one, take)]));
  for (const { audit, follows, events } of calls) {
    const own = [...operations.keys()].filter((operation) =>
      (begun[audit.kind] ?? []).includes(operation.kind) && follows(operation) && begins(audit, operation));
    rows.push(rowOf(audit, events, own.map((one) => operations.get(one) ?? one)));
    own.forEach((operation) => operations.delete(operation));
  }
  rows.push(...operations.values());
  rows.push(...[...left].map((entry) => (isOwn(entry) ? { ...entry, own: true } : entry)));
  return rows.toSorted((a, b) => b.at - a.at);
}

/** Whether an event may be about the fields that a call changed. The audit log does not have all fields. */
const agree = ({ fields: changed = [] }: Entry, { fields }: Entry): boolean =>
  fields === undefined || changed.length === 0 || fields.some((field) => changed.includes(field));

const begins = (audit: Entry, { kind, keys = [] }: Entry): boolean =>
  kind === "operation rotate" || keys.every((key) => audit.keys?.includes(key));

/** An operation with the events that it consists of. */
function parted(operation: Entry, take: (fits: (entry: Entry) => boolean) => Entry[]): Entry {
  const { at, until = at, operation: id } = operation;
  const during = (entry: Entry) => entry.at >= at - skew && entry.at <= until + skew;
  const rotates = operation.kind === "operation rotate";
  const isPart = (entry: Entry) =>
    rotates
      ? entry.kind === "event credentials.rotated" || isRotation(entry)
      : entry.kind === "event agent.updated" && entry.fields?.join() === "env_vars";
  const parts = take((entry) =>
    (entry.operation !== undefined && entry.operation === id) || (during(entry) && isPart(entry)));
  return { ...operation, parts: parts.filter(({ fields }) => fields === undefined) };
}

const isRotation = ({ kind, fields = [] }: Entry): boolean =>
  kind === "event agent.updated" && fields.includes("credential_rotation_pending") && fields.every(isOwnField);

const isOwnField = (field: string): boolean => ownFields.includes(field);

/** A call with what it did. A call that changed one secret is the row of that secret. */
function rowOf(audit: Entry, events: Entry[], operations: Entry[]): Entry {
  const [operation, ...further] = operations;
  const [event] = events;
  // What woke the agent is the call.
  const others = events.filter(({ kind }) => kind !== "event agent.woken");
  const details = [...audit.details, ...others.flatMap((one) => one.details)];
  if (operation !== undefined && further.length === 0 && events.length === 0) {
    return { ...operation, at: audit.at, details: [...details, ...operation.details] };
  }
  const look = event === undefined ? {} : { icon: event.icon, tone: event.tone };
  const parts = operations.length === 0 ? {} : { parts: operations };
  return { ...audit, ...look, ...parts, details };
}
