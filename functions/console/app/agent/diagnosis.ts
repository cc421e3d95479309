import type { Agent, AgentFailure, DashboardReachability } from "../api/types";
import type { Tone } from "../ui/tone";
import { type Advice, adviceFor } from "./advice";
import { spanOf } from "./span";
import { stageText } from "./stage-text";

/** An answer to "what is it doing now, why does it not run, and what can I do?". */
export interface Diagnosis extends Advice {
  tone: Tone;
  /** What the service knows, in its own words. */
  evidence: string;
  code: string;
  /** Where it failed. */
  stage: string;
}

const plain = (tone: Tone, title: string, evidence: string, rest: Partial<Diagnosis> = {}): Diagnosis => ({
  tone,
  title,
  evidence,
  code: "",
  stage: "",
  youCan: [],
  remedies: [],
  ...rest,
});

function failed(tone: Tone, failure: AgentFailure): Diagnosis {
  const stage = failure.stage === "" ? "" : stageText(failure.stage).title;
  return { ...adviceFor(failure.code, failure.retryable), tone, evidence: failure.message, code: failure.code, stage };
}

/** What is known about an agent in addition to its record. */
export interface Known {
  /** Whether its dashboard answers. */
  reachable?: DashboardReachability | undefined;
  /** Whether new credentials are on their way to it. */
  rotates?: boolean;
  /** The status of its organization. */
  organization?: string | undefined;
  now: number;
}

/** Says what an agent is doing, from its record and from what else is known. */
export function diagnose(agent: Agent, known: Known): Diagnosis {
  const { organization, now } = known;
  const failure = agent.config.error;
  switch (agent.status) {
    case "deleting":
      return plain("busy", "The agent is being deleted", "This page says so when all of it is gone.", {
        weWill: "The pod, the volume, the secrets and the address are removed, and each removal is checked. " +
          "The service tries again until it succeeds.",
      });
    case "error":
      return failure === null
        ? plain("bad", "The agent does not run", agent.error_message ?? "", { remedies: ["logs", "start"] })
        : failed("bad", failure);
    case "pending":
    case "provisioning":
      return provisioning(agent, failure, now);
    case "paused":
    case "stopped":
      return resting(agent, organization);
    case "running":
      return running(agent, failure, known);
    default:
      return plain("idle", `The agent is “${agent.status}”`, agent.error_message ?? "");
  }
}

/** Most agents run after this time. */
const usual = 60_000;

function provisioning(agent: Agent, failure: AgentFailure | null, now: number): Diagnosis {
  if (failure !== null) {
    const diagnosis = failed("warn", failure);
    diagnosis.weWill ??= "The service tries again by itself, and gives up after 15 minutes.";
    return { ...diagnosis, remedies: diagnosis.remedies.filter((remedy) => remedy !== "start") };
  }
  const current = agent.config.provisioning_stages.find((stage) => stage.status === "running");
  const text = current === undefined ? undefined : stageText(current.name);
  const evidence =
    text === undefined ? "The next stage begins in a moment." : `It is at the stage “${text.title}”. ${text.about}`;
  const { begin = now } = spanOf(agent.config.provisioning_stages, true);
  if (now - begin > usual) {
    return plain("warn", "Provisioning takes longer than usual", evidence, {
      youCan: ["Read the log, if the pod runs already: it may still load something, or wait for another service."],
      weWill: "The service keeps trying, and gives up after 15 minutes. It then says here what the problem is.",
      remedies: ["logs"],
    });
  }
  return plain(
    "busy",
    "The agent is being provisioned",
    evidence,
    { weWill: "This page changes by itself when the agent runs. Most agents need less than a minute." },
  );
}

function resting(agent: Agent, organization: string | undefined): Diagnosis {
  if (agent.config.status_reason === "billing") {
    return withheld(agent, organization);
  }
  return agent.status === "paused"
    ? plain("idle", "The agent is paused", "Its CPU and memory stay reserved, and its files stay.", {
        youCan: ["Resume it. That never fails for lack of capacity."],
        remedies: ["resume"],
      })
    : plain("idle", "The agent is stopped", "It uses no CPU and memory. Its files and its slot stay.", {
        youCan: ["Start it. The plan must have room for its CPU and memory."],
        remedies: ["start"],
      });
}

/** An agent that the service itself has paused. It resumes the agent when the reason is gone. */
function withheld(agent: Agent, organization: string | undefined): Diagnosis {
  const kept = "It keeps its volume, address and credentials.";
  const because = (reason: string, rest: Partial<Diagnosis>) =>
    plain("warn", `The agent is ${agent.status} because ${reason}`, kept, rest);
  switch (organization) {
    case "suspended":
      return because("the organization is suspended", { youCan: ["Contact support."] });
    case "past_due":
      return because("a payment is overdue", {
        youCan: ["Pay the open amount."],
        weWill: "Once the payment succeeds, the service resumes the agent.",
        remedies: ["billing"],
      });
    case "active":
      return because("it does not fit into the plan", {
        youCan: ["Stop or delete other agents, or choose a larger plan."],
        weWill: "Once the agent fits, the service resumes it within some minutes.",
        remedies: ["plans", "resume"],
      });
    default:
      return because("of the organization’s plan or payments", { remedies: ["billing"] });
  }
}

function running(agent: Agent, failure: AgentFailure | null, { reachable, rotates = false }: Known): Diagnosis {
  if (failure !== null) {
    return failed("warn", failure);
  }
  if (agent.credential_rotation_pending) {
    return rotating(rotates);
  }
  if (agent.dashboard_warming) {
    return plain("busy", "The pod is being replaced", "The dashboard may not answer for some seconds.", {
      weWill: "This page changes by itself when the new pod answers.",
      remedies: ["logs"],
    });
  }
  return reachable === undefined ? plain("good", "The agent is running", "") : probed(reachable);
}

function rotating(moves: boolean): Diagnosis {
  if (moves) {
    const what = "The old ones work until the agent has the new ones.";
    return plain("busy", "The agent is getting new credentials", what, {
      weWill: "The pod is replaced. The service then checks that the new ones are accepted and the old ones refused.",
      remedies: ["credentials"],
    });
  }
  return plain("warn", "The agent does not have its new credentials yet", "The old ones work until it has them.", {
    youCan: ["Look at the rotation. It says why it waits, and how to go on."],
    remedies: ["credentials"],
  });
}

const unreachable: Record<string, { title: string; youCan: string[] }> = {
  dns: { title: "The agent’s address does not resolve yet", youCan: ["Wait a minute: a new address takes a moment."] },
  tls: { title: "The agent’s address has no valid certificate", youCan: ["Wait some minutes, then contact support."] },
  connect: {
    title: "The agent’s address does not accept connections",
    youCan: ["Read the log: does the agent still start?", "Restart the agent if it hangs."],
  },
  timeout: {
    title: "The agent does not answer in time",
    youCan: ["Look at its CPU: is it busy?", "Read the log.", "Restart the agent if it hangs."],
  },
  bad_status: {
    title: "The agent answers with an error",
    youCan: ["Read the log.", "Restart the agent if it hangs."],
  },
};

/** A running agent, as an outside check sees it. */
function probed(reachable: DashboardReachability): Diagnosis {
  if (reachable.reachable || reachable.reason === "ok") {
    const latency = reachable.latency_ms === null ? "" : ` in ${Math.round(reachable.latency_ms)} ms`;
    return plain("good", "The agent is running", `Its address answers${latency}.`);
  }
  const known = unreachable[reachable.reason];
  if (known === undefined) {
    return plain("warn", "The agent is running, but does not answer yet", `The check reports “${reachable.reason}”.`);
  }
  const status = reachable.http_status === null ? "" : ` The status is ${reachable.http_status}.`;
  return plain("warn", known.title, `The agent is running, but its health check fails.${status}`, {
    code: reachable.reason,
    youCan: known.youCan,
    weWill: "The check is repeated every few seconds.",
    remedies: ["logs", "metrics", "restart"],
  });
}
