import type { Agent, SecretOperation } from "@agents.example/client/schema";
import type { Appearance } from "../ui/badge";
import { causeText } from "./cause-text";

/** The key under which the service lists rotations of an agent's credentials. */
export const credentialsKey = "DASHBOARD_CREDENTIALS";

const openStatuses = ["pending", "running", "failed"];

/** Whether an operation has not ended. */
export const isOpen = (operation: SecretOperation): boolean => openStatuses.includes(operation.status);

/** Whether an operation waits for the agent's next start. */
export const isParked = ({ status, error_code }: SecretOperation): boolean =>
  status === "pending" && error_code === "agent_not_running";

/** Whether an operation is about to change, so that it is worth asking often. */
export const isMoving = (operation: SecretOperation): boolean =>
  operation.status === "running" || (operation.status === "pending" && !isParked(operation));

/** Whether an operation has not ended and does not go on by itself. */
export const isStuck = (operation: SecretOperation): boolean => isOpen(operation) && !isMoving(operation);

const verbs: Record<string, string> = { set: "Set", delete: "Delete", rotate: "Rotate" };

/** What an operation does. */
export const operationTitle = ({ action, key }: SecretOperation): string =>
  `${verbs[action] ?? action} ${key === credentialsKey ? "the credentials" : key}`;

const appearances: Record<string, Appearance> = {
  pending: { tone: "busy", icon: "waiting", text: "Waiting" },
  running: { tone: "busy", icon: "busy", text: "Under way" },
  succeeded: { tone: "good", icon: "check", text: "Done" },
  failed: { tone: "bad", icon: "error", text: "Failed" },
  superseded: { tone: "idle", icon: "info", text: "Replaced by a newer change" },
  canceled: { tone: "idle", icon: "close", text: "Canceled with the agent’s deletion" },
};

export function operationAppearance(operation: SecretOperation): Appearance {
  if (isParked(operation)) {
    return { tone: "idle", icon: "paused", text: "Waits for the start" };
  }
  if (operation.status === "pending" && operation.error_code !== null) {
    return { tone: "warn", icon: "waiting", text: "Waiting to retry" };
  }
  return appearances[operation.status] ?? { tone: "idle", icon: "info", text: operation.status };
}

/** Why an operation failed or waits; undefined if it has no problem. */
export function operationProblem(operation: SecretOperation): { title: string; youCan: string } | undefined {
  const { action, error_code: code, stage } = operation;
  if (code === null) {
    return undefined;
  }
  if (isParked(operation)) {
    return {
      title: "The agent does not run",
      youCan:
        action === "rotate"
          ? "The new credentials are stored. The agent gets them when it starts, and then the rotation ends by itself."
          : "The value is stored. The agent gets it when it starts, and then this change ends by itself.",
    };
  }
  if (stage === "store") {
    return {
      title: causeText(code).title,
      youCan:
        action === "rotate"
          ? "The new credentials may not be stored. Rotate again; the retry only looks whether they arrived."
          : "The value may not be stored. Set it again; the retry only looks whether the value arrived.",
    };
  }
  const { title, youCan } = causeText(code);
  return { title, youCan: youCan.join(" ") };
}

const retryTexts: Record<string, string> = {
  store: "It looks whether the value reached the secret store. It never stores a value.",
  rollout: "It replaces the pod again, so the dashboard and the API do not answer for some seconds.",
};

/** What a retry of an operation does. */
export const retryText = ({ stage }: SecretOperation): string =>
  retryTexts[stage] ?? "It repeats the step at which the change stopped. It never stores another value.";

/** How long a change without a problem may wait before a person can push it. */
const patience = 15_000;

/** Whether a retry is offered, and why it may not be possible. */
export function retryOf(
  agent: Agent,
  operation: SecretOperation,
  now: number,
): { offered: boolean; unavailable?: string } {
  const { status, error_code, updated_at } = operation;
  const waits = status === "pending" && (error_code !== null || now - Date.parse(updated_at) > patience);
  if (status !== "failed" && !waits) {
    return { offered: false };
  }
  if (agent.status === "deleting") {
    return { offered: true, unavailable: "The agent is being deleted." };
  }
  return isParked(operation)
    ? { offered: true, unavailable: "Start the agent. The change goes on by itself then." }
    : { offered: true };
}
