/** What a person can do about a problem. The page shows each as a button or a link. */
export type Remedy =
  | "previous-logs"
  | "logs"
  | "metrics"
  | "variables"
  | "start"
  | "restart"
  | "resume"
  | "plans"
  | "billing"
  | "settings"
  | "credentials"
  | "another-agent";

export interface Advice {
  title: string;
  /** What the person can do, most promising first. */
  youCan: string[];
  /** What the service does by itself. */
  weWill?: string;
  remedies: Remedy[];
}

const support =
  "Contact support, and name the agent’s ID. The cause is on the side of the service, and you cannot change it.";
const outage: Omit<Advice, "title"> = {
  youCan: ["Nothing is wrong with the agent, and there is nothing to change. Wait, or come back later."],
  weWill: "The service tries again by itself until it succeeds.",
  remedies: [],
};
const ours: Omit<Advice, "title"> = { youCan: [support], remedies: [] };

const known: Record<string, Advice> = {
  pod_crash_loop: {
    title: "The agent exits soon after it starts",
    youCan: [
      "Read the last lines that it wrote before it exited. They usually say why.",
      "Check that its variables and secrets are complete and correct.",
      "Then start it again, so that it does not wait for the next attempt.",
    ],
    weWill:
      "The cluster keeps starting it, with longer and longer pauses. If it stays up, its status becomes “running”.",
    remedies: ["previous-logs", "variables", "start"],
  },
  out_of_memory: {
    title: "The agent needs more memory than its plan has",
    youCan: [
      "Look at the memory curve, and lower what the agent keeps in memory, for example with its variables.",
      "Or create an agent on a larger plan. The plan of an agent cannot be changed later.",
    ],
    weWill: "The cluster keeps starting it, with longer and longer pauses.",
    remedies: ["metrics", "variables", "start", "another-agent", "plans"],
  },
  container_start_failed: {
    title: "The agent’s container cannot start with its configuration",
    youCan: ["Check its variables and secrets.", "Start it again.", "If that does not help, contact support."],
    remedies: ["variables", "start"],
  },
  readiness_timeout: {
    title: "The agent did not become ready in time",
    youCan: [
      "Read its log: does it still load something, or wait for another service?",
      "Check that it listens on the port in the variable PORT.",
      "Then start it again.",
    ],
    remedies: ["logs", "variables", "start"],
  },
  gateway_unhealthy: {
    title: "The pod runs, but the agent does not answer on its address",
    youCan: ["Wait a moment: most agents need some seconds.", "Read its log for errors while it starts."],
    weWill: "The service keeps asking until the agent answers.",
    remedies: ["logs", "start"],
  },
  pod_unschedulable: {
    title: "The region has no room for the agent at the moment",
    youCan: ["Wait some minutes."],
    weWill: "The cluster adds a machine by itself. That usually takes a few minutes.",
    remedies: ["start"],
  },
  sandbox_unschedulable: {
    title: "The region’s cluster does not provide the sandbox",
    youCan: ["Run the agent without the sandbox, or contact support before you turn it on again."],
    remedies: ["settings", "start"],
  },
  quota_exceeded: {
    title: "The previous pod still occupies the agent’s place",
    youCan: ["Wait a moment."],
    weWill: "The place becomes free when the previous pod has ended. The service tries again by itself.",
    remedies: ["start"],
  },
  volume_unavailable: {
    title: "The agent’s volume is not attached yet",
    youCan: ["Wait some minutes. If it does not help, contact support."],
    weWill: "The cluster keeps trying. Your files are safe.",
    remedies: ["start"],
  },
  namespace_missing: {
    title: "The agent’s place in the cluster is gone, and its files with it",
    youCan: [
      "If the plan has daily backups, ask support to restore the volume before you start the agent.",
      "Or start the agent with an empty volume.",
    ],
    remedies: ["start"],
  },
  secret_value_unavailable: {
    title: "The value of a secret is missing",
    youCan: ["Set the secret again. The list of variables shows which one has no stored value."],
    remedies: ["variables", "start"],
  },
  secret_quota_exceeded: { title: "The secret store is at its limit", ...outage },
  secret_store_denied: { title: "The service may not read the agent’s secrets", ...ours },
  secret_store_unavailable: { title: "The secret store cannot be reached", ...outage },
  store_unavailable: { title: "The service’s database cannot be reached", ...outage },
  cluster_unavailable: { title: "The region’s cluster cannot be reached", ...outage },
  cluster_unreachable: { title: "The region’s cluster cannot be reached", ...outage },
  namespace_terminating: { title: "What was there before is still being removed", ...outage },
  sync_conflict: { title: "Another change of the agent came in between", ...outage },
  internal_error: { title: "An error of the service", ...outage },
  image_pull_failed: { title: "The cluster cannot get the agent’s image", ...ours },
  pod_rejected: { title: "The cluster does not accept the agent’s pod", ...ours },
  object_rejected: { title: "The cluster does not accept the agent’s configuration", ...ours },
  plan_unknown: { title: "The service does not know the agent’s plan", ...ours },
  namespace_not_owned: { title: "The agent’s place in the cluster belongs to something else", ...ours },
  attempts_exhausted: {
    title: "All attempts to start the agent failed",
    youCan: ["Start it again.", "If that fails, too, read its log and contact support."],
    remedies: ["start", "logs"],
  },
  rollout_timeout: {
    title: "The new pod did not become ready in time",
    youCan: ["Read its log.", "Check its variables and secrets."],
    remedies: ["logs", "variables"],
  },
};

/** What to do about an error code. A code that the console does not know gets general advice. */
export function adviceFor(code: string, retryable: boolean): Advice {
  return (
    known[code] ?? {
      title: "The agent has a problem",
      youCan: retryable
        ? ["Read its log.", "If the problem stays, contact support, and name the agent’s ID."]
        : [support],
      remedies: retryable ? ["logs", "start"] : ["start"],
    }
  );
}
