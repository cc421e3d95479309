import type { SecretOperation } from "@agents.example/client/schema";
import type { Appearance } from "../ui/badge";
import { Icon } from "../ui/icons";

/** The stages of each action, in order. */
const stages: Record<string, Record<string, string>> = {
  set: {
    store: "Store the new value",
    bind: "Make it the agent’s value",
    sync: "Bring it to the cluster",
    rollout: "Replace the pod, and prove that it has the new value",
    complete: "Destroy the old value",
  },
  delete: {
    bind: "Take it from the agent",
    sync: "Remove it from the cluster",
    rollout: "Replace the pod, and prove that it runs without it",
    destroy: "Destroy the stored values",
    complete: "Finish",
  },
};

/** How far an operation on a secret is. */
export function Steps({ operation }: { operation: SecretOperation }) {
  const texts: Record<string, string> = stages[operation.action] ?? stages["set"] ?? {};
  const shown = operation.stage in texts ? Object.keys(texts) : [...Object.keys(texts), operation.stage];
  const current = shown.indexOf(operation.stage);
  const ended = operation.status === "succeeded";
  return (
    <ol class="steps-list">
      {shown.map((stage, position) => {
        const done = ended || position < current;
        const here = !ended && position === current;
        const { tone, icon, text } = done ? finished : here ? currentMark(operation) : later;
        return (
          <li key={stage} class={here ? "here" : ""} aria-current={here ? "step" : undefined}>
            <span class={`mark tone-${tone}`}>
              <Icon name={icon} turning={icon === "busy"} />
            </span>
            <span>
              {texts[stage] ?? stage}
              <span class="visually-hidden">: {text}</span>
              {here && operation.attempt_count > 1 ? (
                <span class="quiet small"> attempt {operation.attempt_count}</span>
              ) : null}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

const finished: Appearance = { tone: "good", icon: "check", text: "done" };
const later: Appearance = { tone: "idle", icon: "waiting", text: "not started" };

function currentMark({ status, error_code }: SecretOperation): Appearance {
  switch (true) {
    case status === "failed":
      return { tone: "bad", icon: "error", text: "failed" };
    case status === "pending" && error_code === "agent_not_running":
      return { tone: "idle", icon: "paused", text: "waits for the agent’s start" };
    case status === "pending" && error_code !== null:
      return { tone: "warn", icon: "waiting", text: "waits for another attempt" };
    default:
      return { tone: "busy", icon: "busy", text: "under way" };
  }
}
