import type { Agent, AgentAction } from "@agents.example/client/schema";
import type { IconName } from "../ui/icons";
import { isAsleep } from "../ui/status";
import { wakersText } from "./sleep-text";

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
  sleep: {
    label: "Put to sleep",
    icon: "asleep",
    does: (agent) => `Its pod is removed now, and not when the agent is idle. ${wakersText(agent.sleep)}`,
    downtime: () => "Requests that are under way are cut off. To wake usually takes some seconds.",
    keeps:
      "CPU and memory stay reserved, so waking never fails for lack of capacity. The volume, the address and the " +
      "credentials stay.",
    accepted: "The agent is asleep.",
  },
  wake: {
    label: "Wake",
    icon: "play",
    does: () => "A new pod is started on the agent’s volume.",
    downtime: () => "It does not run now. " + startTime,
    keeps: "Its CPU and memory are reserved, so nothing more counts against your plan.",
    accepted: "The agent wakes.",
  },
  pause: {
    label: "Pause",
    icon: "paused",
    does: (agent) =>
      isAsleep(agent)
        ? "It stays without a pod until you resume the agent: requests and schedules do not wake it any more."
        : "Its pod is removed until you resume the agent.",
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
export const actionText = (action: AgentAction, agent: Agent): ActionText =>
  texts[action === "resume" && isAsleep(agent) ? "wake" : action] ?? {
    label: action.charAt(0).toUpperCase() + action.slice(1),
    icon: "info",
    does: () => "The console does not know this action. The API reference describes it.",
    downtime: () => "Unknown.",
    keeps: "Unknown.",
    accepted: "The action is accepted.",
  };

/** The actions that an agent's status allows. To sleep is not among those of the service, because agents do it, too. */
export const allowedActions = (agent: Agent): AgentAction[] =>
  agent.status === "running" && agent.sleep.after_seconds !== null
    ? [...agent.config.allowed_actions, "sleep"]
    : agent.config.allowed_actions;

export const allows = (agent: Agent, action: AgentAction): boolean => allowedActions(agent).includes(action);
