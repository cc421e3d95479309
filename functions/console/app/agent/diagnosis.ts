import type { Agent, DashboardReachability, Diagnosis, DiagnosisAction } from "@agents.example/client/schema";
import { statusOf } from "../ui/status";
import type { Tone } from "../ui/tone";
import { type Fact, factsOf, newIn, stepWith } from "./diagnosis-text";
import { stageText } from "./stage-text";

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
  | "snapshots"
  | "support";

/** A step in words, and the remedy that it is about. */
export interface Step {
  text: string;
  remedy?: Remedy | undefined;
}

/** The service's answer to "what is it doing, why does it not run, and what can I do?", as the page shows it. */
export interface Presentation {
  tone: Tone;
  title: string;
  /** What the service knows, in its own words. */
  text: string;
  code: string;
  /** Where it failed. */
  stage: string;
  /** The facts from which the problem follows. */
  facts: Fact[];
  /** The other problems. */
  others: string[];
  youCan: Step[];
  weWill: string;
  remedies: Remedy[];
}

const shown = (tone: Tone, title: string, text = "", rest: Partial<Presentation> = {}): Presentation => ({
  tone,
  title,
  text,
  code: "",
  stage: "",
  facts: [],
  others: [],
  youCan: [],
  weWill: "",
  remedies: [],
  ...rest,
});

const remedyOf: Partial<Record<DiagnosisAction, Remedy>> = {
  read_previous_logs: "previous-logs",
  read_logs: "logs",
  view_metrics: "metrics",
  update: "variables",
  set_secret: "variables",
  reconcile: "variables",
  start: "start",
  restart: "restart",
  resume: "resume",
  resize: "settings",
  compare_plans: "plans",
  manage_billing: "billing",
  move_out_of_sandbox: "settings",
  restore_snapshot: "snapshots",
  contact_support: "support",
  allow_hosts: "settings",
};

/** The code of an agent that sleeps. */
const asleep = "agent_asleep";

/** Situations that a person chose, or agreed to. They are no problems. */
const chosen = ["agent_paused", "agent_stopped", asleep];

/** Shows the service's diagnosis of an agent, with the last check of its address. */
export function show(agent: Agent, diagnosis: Diagnosis | undefined, reachable?: DashboardReachability): Presentation {
  // The diagnosis and the agent are read separately: one of another status is about the past.
  if (diagnosis === undefined || diagnosis.status !== agent.status) {
    return early(agent);
  }
  const [first, ...others] = diagnosis.causes;
  if (first === undefined) {
    return unproblematic(agent, diagnosis, reachable);
  }
  const rotates = agent.credential_rotation_pending ? (["credentials"] as const) : [];
  const stage = agent.config.error?.stage ?? "";
  const rests = chosen.includes(first.code) || first.code === "agent_deleting";
  const title = sentence(diagnosis.summary);
  const youCan = first.you_can.map(({ text, action }): Step => ({
    text: stepWith(text, action),
    remedy: first.code === asleep && action === "update" ? "settings" : remedyOf[action],
  }));
  const remedies = youCan.flatMap(({ remedy }) => remedy ?? []);
  const text = newIn(first.message, title, youCan.length > 0);
  const facts = rests ? [] : factsOf(first.evidence.filter((fact) => !text.toLowerCase().includes(words(fact))));
  return shown(toneOf(agent, first.code), title, text || atStage(agent), {
    code: rests ? "" : first.code,
    stage: stage === "" ? "" : stageText(stage).title,
    facts,
    others: others.map((cause) => cause.message),
    youCan,
    weWill: first.we_will ?? "",
    remedies: [...new Set<Remedy>([...rotates, ...remedies])],
  });
}

function toneOf(agent: Agent, code: string): Tone {
  switch (true) {
    case chosen.includes(code):
      return "idle";
    case agent.status === "error":
      return "bad";
    case agent.status === "deleting":
      return "busy";
    default:
      return "warn";
  }
}

/** A fact as a message has it: "exit code: 1" is "exit code 1". */
const words = (fact: string): string => fact.replace(": ", " ").toLowerCase();

/** The first sentence, without its full stop. */
const sentence = (text: string): string => (text.split(". ")[0] ?? text).replace(/\.$/, "");

/** What follows the first sentence. */
const rest = (text: string): string => text.split(". ").slice(1).join(". ");

/** Where the start of an agent is; "" if it does not start. */
function atStage(agent: Agent): string {
  const current = agent.config.provisioning_stages.find((stage) => stage.status === "running");
  if (current === undefined || agent.status !== "provisioning") {
    return "";
  }
  const { title, about } = stageText(current.name);
  return `It is at the stage “${title}”. ${about}`;
}

const titles: Record<string, [Tone, string]> = {
  running: ["good", "The agent is running"],
  asleep: ["idle", "The agent is asleep"],
  paused: ["idle", "The agent is paused"],
  stopped: ["idle", "The agent is stopped"],
  error: ["bad", "The agent does not run"],
  deleting: ["busy", "The agent is being deleted"],
  pending: ["busy", "The agent is being provisioned"],
  provisioning: ["busy", "The agent is being provisioned"],
};

/** What the record alone says, until the diagnosis is there. */
function early(agent: Agent): Presentation {
  const [tone, title] = titles[statusOf(agent)] ?? ["idle", `The agent is “${agent.status}”`];
  return shown(tone, title, agent.error_message ?? "", { code: agent.config.error?.code ?? "" });
}

function unproblematic(agent: Agent, diagnosis: Diagnosis, reachable?: DashboardReachability): Presentation {
  if (agent.status === "running" && diagnosis.waiting_for === null && reachable !== undefined) {
    return probed(reachable);
  }
  const rotates = agent.credential_rotation_pending;
  const remedies: Remedy[] = rotates ? ["credentials"] : agent.dashboard_warming ? ["logs"] : [];
  if (agent.status === "running" && diagnosis.waiting_for === null) {
    return shown(rotates ? "warn" : "good", sentence(diagnosis.summary), "", { remedies });
  }
  return shown("busy", sentence(diagnosis.summary), atStage(agent) || rest(diagnosis.summary), {
    weWill: agent.status === "running"
      ? "This page changes by itself when the agent answers."
      : "This page changes by itself when the agent runs. Most agents need less than a minute.",
    remedies,
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
  dashboard_error: {
    title: "The agent’s dashboard answers with an error",
    youCan: ["Read the log: its own program decides about these requests.", "Look at its variables and secrets."],
  },
  bad_status: {
    title: "The agent answers with an error",
    youCan: ["Read the log.", "Restart the agent if it hangs."],
  },
};

/** A running agent, as an outside check sees it. The service's diagnosis does not ask the agent. */
function probed(reachable: DashboardReachability): Presentation {
  if (reachable.reachable || reachable.reason === "ok") {
    const latency = reachable.latency_ms === null ? "" : ` in ${Math.round(reachable.latency_ms)} ms`;
    return shown("good", "The agent is running", `Its address answers${latency}.`);
  }
  const known = unreachable[reachable.reason];
  if (known === undefined) {
    return shown("warn", "The agent is running, but does not answer yet", `The check reports “${reachable.reason}”.`);
  }
  const status = reachable.http_status === null ? "" : ` The status is ${reachable.http_status}.`;
  const what = reachable.reason === "dashboard_error" ? "its dashboard cannot be used" : "its health check fails";
  return shown("warn", known.title, `The agent is running, but ${what}.${status}`, {
    code: reachable.reason,
    youCan: known.youCan.map((text) => ({ text })),
    weWill: "The check is repeated every few seconds.",
    remedies: ["logs", "metrics", "restart"],
  });
}
