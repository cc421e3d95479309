import type { Agent, AuditEntry, SecretOperation } from "@agents.example/client/schema";
import type { IconName } from "../ui/icons";
import { formatDuration } from "../ui/time";
import type { Tone } from "../ui/tone";
import { spanOf } from "./span";

/** One thing that happened to the agent. */
export interface Entry {
  id: string;
  /** When, in milliseconds since 1970. */
  at: number;
  icon: IconName;
  tone: Tone;
  title: string;
  /** How it ended, in words. */
  outcome: string;
  details: string[];
}

const actions: Record<string, string> = {
  CreateAgent: "Agent created",
  UpdateAgent: "Agent changed",
  DeleteAgent: "Agent deleted",
  RestartAgent: "Restart",
  PauseAgent: "Pause",
  ResumeAgent: "Resume",
  SleepAgent: "Put to sleep",
  StopAgent: "Stop",
  StartAgent: "Start",
  MigrateAgentSandbox: "Sandbox changed",
  PutSecrets: "Secrets set",
  DeleteSecret: "Secret deleted",
  ReconcileSecretOperation: "Secret operation retried",
  WakeAgentAt: "Time to wake it set",
  RevealCredentials: "Credentials revealed",
  RotateCredentials: "Rotation of the credentials requested",
};

/** An entry of the audit log: who did what. */
export function auditEntry(audit: AuditEntry): Entry {
  const { actor, outcome } = audit;
  const succeeded = outcome === "succeeded";
  const who = actor.email ?? (actor.key_prefix === null ? actor.id : `API key ${actor.key_prefix}…`);
  const changes = audit.changes.map(({ field, old, new: next }) => `${field}: ${old ?? "none"} → ${next ?? "none"}`);
  return {
    id: `audit ${audit.id}`,
    at: Date.parse(audit.created_at),
    icon: "user",
    tone: succeeded ? "good" : outcome === "begun" ? "warn" : "bad",
    title: actions[audit.action] ?? audit.action,
    outcome: succeeded ? "Succeeded" : outcome === "begun" ? "Interrupted" : `Refused: ${outcome}`,
    details: [`By ${who}${audit.replayed ? ", as a repeat that changed nothing" : ""}`, ...changes],
  };
}

const verbs: Record<string, string> = { set: "set", delete: "deleted", rotate: "rotated" };

const operationTones: Record<string, Tone> = {
  succeeded: "good",
  failed: "bad",
  pending: "warn",
  running: "busy",
};

const operationOutcomes: Record<string, string> = {
  succeeded: "The agent has it",
  failed: "Failed",
  pending: "Waiting",
  running: "Under way",
  superseded: "Replaced by a newer change",
  canceled: "Canceled",
};

/** An operation on a secret: how far a value is. */
export function operationEntry(operation: SecretOperation): Entry {
  const { key, action, status, stage, error_code: code } = operation;
  const rotation = action === "rotate";
  const ended = status === "succeeded" || status === "superseded" || status === "canceled";
  const took = Date.parse(operation.updated_at) - Date.parse(operation.created_at);
  const details = ended ? [] : [`Stage ${stage}, attempt ${operation.attempt_count}`];
  if (status === "succeeded") {
    details.push(`Took ${formatDuration(took)}`);
  }
  if (code !== null) {
    details.push(`Code ${code}`);
  }
  return {
    id: `operation ${operation.id}`,
    at: Date.parse(operation.created_at),
    icon: "key",
    tone: operationTones[status] ?? "idle",
    title: rotation ? "Credentials rotated" : `Secret ${key} ${verbs[action] ?? action}`,
    outcome: operationOutcomes[status] ?? status,
    details,
  };
}

/** What the record of the agent itself remembers: its creation, and the end of its last provisioning. */
export function recordEntries(agent: Agent, withCreation: boolean): Entry[] {
  const created = Date.parse(agent.created_at);
  const entries: Entry[] = withCreation
    ? [{ id: "created", at: created, icon: "plus", tone: "good", title: "Agent created", outcome: "", details: [] }]
    : [];
  const { begin, end, done, replaced } = spanOf(agent.config.provisioning_stages, true);
  if (done && begin !== undefined && end !== undefined) {
    entries.push({
      id: "ready",
      at: end,
      icon: "running",
      tone: "good",
      title: replaced ? "New pod ready" : "Agent provisioned",
      outcome: "Succeeded",
      details: replaced ? [] : [`All stages took ${formatDuration(end - begin)}`],
    });
  }
  return entries;
}
