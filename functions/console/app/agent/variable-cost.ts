import type { Agent } from "@agents.example/client/schema";

/** Whether the agent has a pod, or is about to get one. */
const hasPod = (agent: Agent): boolean => ["running", "provisioning", "pending", "error"].includes(agent.status);

/** What a change of variables costs. */
export const costOf = (agent: Agent): string =>
  hasPod(agent)
    ? "The pod is replaced by one with the new values. The dashboard and the API do not answer for some seconds."
    : "None now: no pod runs. The agent gets the new values when it starts.";

/** What to say once a change is accepted. */
export const acceptedText = (agent: Agent): string =>
  hasPod(agent) ? "Saved. The pod is replaced by one with the new values." : "Saved. The agent gets it when it starts.";

/** Why variables cannot be changed now. */
export const unchangeable = (agent: Agent): string | undefined =>
  agent.status === "deleting" ? "The agent is being deleted." : undefined;
