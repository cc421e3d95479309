import type { Agent } from "@agents.example/client/schema";
import { type Appearance, Badge } from "./badge";

const appearances: Record<string, Appearance> = {
  pending: { tone: "warn", icon: "waiting", text: "Waiting to retry" },
  provisioning: { tone: "busy", icon: "busy", text: "Provisioning" },
  running: { tone: "good", icon: "running", text: "Running" },
  paused: { tone: "idle", icon: "paused", text: "Paused" },
  asleep: { tone: "idle", icon: "asleep", text: "Asleep" },
  stopped: { tone: "idle", icon: "stopped", text: "Stopped" },
  error: { tone: "bad", icon: "error", text: "Error" },
  deleting: { tone: "busy", icon: "busy", text: "Deleting" },
};

/** The word for a status. */
export const statusText = (status: string): string => appearances[status]?.text ?? status;

/** Whether an agent sleeps. The service calls that paused, because it is idle. */
export const isAsleep = (agent: Pick<Agent, "status" | "config">): boolean =>
  agent.status === "paused" && agent.config.status_reason === "idle";

/** An agent's status, as the console tells them apart. */
export const statusOf = (agent: Pick<Agent, "status" | "config">): string =>
  isAsleep(agent) ? "asleep" : agent.status;

/** What an agent does now, as a word with an icon. */
export function Status({ agent }: { agent: Pick<Agent, "status" | "dashboard_warming" | "config"> }) {
  const known = appearances[statusOf(agent)];
  const warming = agent.status === "running" && agent.dashboard_warming;
  const shown: Appearance = warming
    ? { tone: "busy", icon: "busy", text: "Running, restarting" }
    : (known ?? { tone: "idle", icon: "info", text: agent.status });
  return <Badge {...shown} />;
}

/** Whether an agent is on its way to another state, so that it is worth asking often. */
export const isChanging = (agent: Agent): boolean =>
  ["pending", "provisioning", "deleting"].includes(agent.status) ||
  agent.dashboard_warming ||
  (agent.credential_rotation_pending && agent.status === "running");
