import type { Agent, AgentAction } from "@agents.example/client/schema";
import type { IconName } from "../ui/icons";

export interface ActionText {
  label: string;
  icon: IconName;
  /** What happens. */
  does: (agent: Agent) => string;
  /** For how long the agent does not work. */
  downtime: (agent: Agent) => string;
  /** What stays, and what counts against the plan. */
  keeps: string;
  /** What the page says when the service has accepted the action. */
  accepted: string;
}

const startTime =
  "The agent usually answers again after some seconds. A region that has to add a machine takes minutes.";
const replaced = "Its pod is replaced by a new one with the newest variables and secrets.";

const texts: Record<string, ActionText> = {
  restart: {
    label: "Restart",
    icon: "refresh",
    does: () => replaced,
    downtime: (agent) =>
      agent.status === "error"
        ? "It does not run now. " + startTime
        : "The dashboard and the API do not answer for some seconds, until the new pod is ready. Requests that are " +
          "under way are cut off.",
    keeps: "The volume, the address and the credentials stay.",
    accepted: "The agent is restarting.",
  },
  pause: {
    label: "Pause",
    icon: "paused",
    does: () => "Its pod is removed until you resume the agent.",
    downtime: () => "The dashboard and the API do not answer while it is paused. To resume usually takes some seconds.",
    keeps:
      "CPU and memory stay reserved, so resuming never fails for lack of capacity. The volume, the address and the " +
      "credentials stay.",
    accepted: "The agent is paused.",
  },
  resume: {
    label: "Resume",
    icon: "play",
    does: () => "A new pod is started on the agent’s volume.",
    downtime: () => "It does not run now. " + startTime,
    keeps: "Its CPU and memory are reserved, so nothing more counts against your plan.",
    accepted: "The agent is being resumed.",
  },
  stop: {
    label: "Stop",
    icon: "stopped",
    does: (agent) =>
      agent.status === "running"
        ? "Its pod is removed until you start the agent."
        : "No pod is kept or started for it.",
    downtime: () => "The dashboard and the API do not answer while it is stopped. To start usually takes some seconds.",
    keeps:
      "CPU and memory become free for other agents, so starting may be refused if they are in use by then. " +
        "The volume, " +
      "the agent’s slot, the address and the credentials stay.",
    accepted: "The agent is stopped.",
  },
  start: {
    label: "Start",
    icon: "play",
    does: (agent) => (agent.status === "error" ? replaced : "A new pod is started on the agent’s volume."),
    downtime: () => "It does not run now. " + startTime,
    keeps: "Its CPU and memory count against your plan again. Starting is refused if the plan has no room for them.",
    accepted: "The agent is being started.",
  },
  delete: {
    label: "Delete",
    icon: "trash",
    does: () => "The agent is removed for good.",
    downtime: () => "It stops answering within seconds, and does not come back.",
    keeps: "Nothing stays, and nothing counts against your plan any more.",
    accepted: "The agent is being deleted.",
  },
};

/** What an action is and costs, in words. An action that the console does not know has only its name. */
export const actionText = (action: AgentAction): ActionText =>
  texts[action] ?? {
    label: action.charAt(0).toUpperCase() + action.slice(1),
    icon: "info",
    does: () => "The console does not know this action. The API reference describes it.",
    downtime: () => "Unknown.",
    keeps: "Unknown.",
    accepted: "The action is accepted.",
  };
