import type { Agent, AuditEntry, SecretOperation } from "@agents.example/client/schema";
import { actionText } from "../events/action-text";
import { actorText } from "../events/actor-text";
import { changesTitle } from "../events/change-text";
import { outcomeText } from "../events/outcome-text";
import type { IconName } from "../ui/icons";
import { formatDuration } from "../ui/time";
import type { Tone } from "../ui/tone";
import { operationAppearance } from "./operation-text";
import { spanOf } from "./span";

/** One thing that happened to the agent, as one of the service's lists has it. */
export interface Entry {
  id: string;
  /** When, in milliseconds since 1970. */
  at: number;
  /** When it ended, if it took a while. */
  until?: number;
  /** The list and what it is about, such as "audit StopAgent", "event agent.stopped" and "operation rotate". */
  kind: string;
  icon: IconName;
  tone: Tone;
  title: string;
  /** How it ended, in words. Empty if it did what the title says. */
  outcome: string;
  details: string[];
  /** The fields of the agent that changed, by the names that events have. */
  fields?: string[];
  /** The operation that the entry is about. */
  operation?: string;
  /** The secrets that a call changed. */
  keys?: string[];
  /** Whether only the control plane did something. */
  own?: boolean;
  /** What it consisted of, the oldest first. */
  parts?: Entry[];
}

/** The names in events of fields that have others in the audit log. */
const eventFields: Record<string, string> = {
  sandbox_enabled: "config.sandbox_enabled",
  image_policy: "image.policy",
  maintenance_window: "image.maintenance_window",
};

/** An entry of the audit log: who did what. */
export function auditEntry(audit: AuditEntry, names: Map<string, string>): Entry {
  const { action, outcome, changes, replayed } = audit;
  const succeeded = outcome === "succeeded";
  const { title, details } = changesTitle(changes.filter(({ field }) => field !== "status" && field !== "credentials"));
  const says = changes.length > 0 && /^(?:UpdateAgent|PutSecrets|DeleteSecret)$/.test(action);
  return {
    id: `audit ${audit.id}`,
    at: Date.parse(audit.created_at),
    kind: replayed || !succeeded ? "audit" : `audit ${action}`,
    icon: "user",
    tone: succeeded ? "idle" : outcome === "begun" ? "warn" : "bad",
    title: says ? title : actionText(action),
    outcome: succeeded ? "" : outcome === "begun" ? "Begun" : `Refused: ${outcomeText(outcome)}`,
    details: [
      `By ${actorText(audit.actor, names).replace(/^The /, "the ")}` +
        (replayed ? ", as a repeat that changed nothing" : ""),
      ...(says || changes.length === 0 ? details : [title, ...details].filter((text) => text !== "Agent changed")),
    ],
    fields: [...new Set(changes.map(({ field }) => eventFields[field] ?? field.replace(/\..*$/s, "")))],
    keys: changes.flatMap(({ field }) => (field.startsWith("secrets.") ? [field.slice(8)] : [])),
  };
}

const verbs: Record<string, string> = { set: "set", delete: "removed", rotate: "rotated" };

/** An operation on a secret: how far a value is. */
export function operationEntry(operation: SecretOperation): Entry {
  const { key, action, status, stage, error_code: code } = operation;
  const { tone, text } = operationAppearance(operation);
  const [at, until] = [Date.parse(operation.created_at), Date.parse(operation.updated_at)];
  const ended = ["succeeded", "superseded", "canceled"].includes(status);
  const details = ended ? [] : [`Stage ${stage}, attempt ${operation.attempt_count}`];
  if (status === "succeeded") {
    details.push(`In use ${formatDuration(until - at)} later`);
  }
  if (code !== null) {
    details.push(`Code ${code}`);
  }
  return {
    id: `operation ${operation.id}`,
    at,
    until,
    kind: `operation ${action}`,
    icon: "key",
    tone,
    title: action === "rotate" ? "Credentials rotated" : `Secret ${key} ${verbs[action] ?? action}`,
    outcome: status === "succeeded" ? "" : text,
    details,
    operation: operation.id,
    keys: [key],
  };
}

/** What the record of the agent itself remembers: its creation, and the end of its last provisioning. */
export function recordEntries(agent: Agent, withCreation: boolean): Entry[] {
  const shared = { kind: "record", tone: "good" as const, outcome: "" };
  const entries: Entry[] = withCreation
    ? [{
        ...shared,
        id: "created",
        at: Date.parse(agent.created_at),
        icon: "plus",
        title: "Agent created",
        details: [],
      }]
    : [];
  const { begin, end, done, replaced } = spanOf(agent.config.provisioning_stages, true);
  if (done && begin !== undefined && end !== undefined) {
    entries.push({
      ...shared,
      id: "ready",
      at: end,
      icon: "running",
      title: replaced ? "New pod ready" : "Agent provisioned",
      details: replaced ? [] : [`All stages took ${formatDuration(end - begin)}`],
    });
  }
  return entries;
}
