import type { Agent } from "@agents.example/client/schema";
import { causeText } from "../agent/cause-text";
import { stageText } from "../agent/stage-text";

/** What the status alone does not say. */
export interface Why {
  /** A line. */
  text: string;
  /** What the service says about it. */
  detail: string;
}

/** Why an agent has its status; undefined if the status says everything. */
export function whyOf(agent: Agent): Why | undefined {
  const failure = agent.config.error;
  switch (true) {
    case agent.status === "deleting":
      return undefined;
    case failure !== null:
      return {
        text: causeText(failure?.code ?? "").title,
        detail: failure?.message ?? "",
      };
    case agent.error_message !== null && agent.error_message !== "":
      return { text: agent.error_message ?? "", detail: agent.error_message ?? "" };
    case agent.status === "provisioning":
      return stageOf(agent);
    case agent.config.status_reason === "billing":
      return {
        text: "Paused by the service",
        detail: "A payment is overdue, the agent does not fit into the plan, or the organization is suspended.",
      };
    case agent.credential_rotation_pending:
      return { text: "Getting new credentials", detail: "The old ones work until the agent has the new ones." };
    default:
      return undefined;
  }
}

function stageOf({ config: { provisioning_stages: stages } }: Agent): Why | undefined {
  const index = stages.findIndex(({ status }) => status === "running");
  const stage = stages[index];
  if (stage === undefined) {
    return undefined;
  }
  const { title, about } = stageText(stage.name);
  return { text: `Step ${index + 1} of ${stages.length}: ${title}`, detail: about };
}
