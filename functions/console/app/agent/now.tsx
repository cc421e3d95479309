import type { Agent, DashboardReachability, Diagnosis } from "@agents.example/client/schema";
import { useEffect } from "preact/hooks";
import { type Live, useLive } from "../api/live";
import { href } from "../router";
import { LinkButton } from "../ui/button";
import { Stale } from "../ui/feedback";
import { Icon, type IconName } from "../ui/icons";
import { Time } from "../ui/time";
import { toneIcons } from "../ui/tone";
import { ActionButton } from "./actions";
import { type Presentation, type Remedy, show } from "./diagnosis";
import { Moments } from "./moments";
import { agentPath, type TabName, tabHref } from "./paths";

const every = 15_000;
/** While the pod is being replaced. The service itself remembers a check for two seconds. */
const everyWhileWarming = 2_500;
/** With what else the page reads of the agent, this stays below the number of reads that the service allows. */
const quick = 1_500;

/** What the agent is doing now, why it does not run, and what one can do. */
export function Now({ agent }: { agent: Agent }) {
  return agent.status === "running" ? <RunningNow agent={agent} /> : <Panel agent={agent} />;
}

function RunningNow({ agent }: { agent: Agent }) {
  const live = useLive<DashboardReachability>(`${agentPath(agent.id)}/dashboard-reachability`, {
    every: agent.dashboard_warming || agent.credential_rotation_pending ? everyWhileWarming : every,
  });
  // A check from before the pod was replaced says nothing about the new one.
  const current = live.data?.dashboard_warming === agent.dashboard_warming ? live.data : undefined;
  return <Panel agent={agent} reachable={current} check={live} />;
}

/** Follows the service's diagnosis, and reads it again whenever the agent has changed. */
function useDiagnosis(agent: Agent): Diagnosis | undefined {
  const live = useLive<Diagnosis>(`${agentPath(agent.id)}/diagnosis`, {
    every,
    quick,
    changing: ({ waiting_for }) => waiting_for === "worker" || waiting_for === "cluster",
  });
  useEffect(live.refresh, [agent.updated_at, agent.status]);
  return live.data;
}

interface PanelProps {
  agent: Agent;
  reachable?: DashboardReachability | undefined;
  /** The checks of the agent's address. */
  check?: Live<DashboardReachability>;
}

function Panel({ agent, reachable, check }: PanelProps) {
  const diagnosis = useDiagnosis(agent);
  const what = show(agent, diagnosis, reachable);
  const { tone, title, text, code, stage, evidence, others } = what;
  return (
    <section class={`card now tone-${tone}`} aria-label="What the agent is doing now">
      <span class="mark">
        <Icon name={tone === "busy" ? "busy" : toneIcons[tone]} turning={tone === "busy"} />
      </span>
      <div class="what">
        <h2>{title}</h2>
        {text === "" ? null : <p>{text}</p>}
        {others.map((other) => (
          <p key={other}>{other}</p>
        ))}
        <p class="small quiet facts-line">
          {code === "" ? null : (
            <span>
              Code <code>{code}</code>
            </span>
          )}
          {stage === "" ? null : <span>Stage: {stage}</span>}
          {evidence.map((fact) => (
            <span key={fact}>{fact}</span>
          ))}
          {diagnosis === undefined || diagnosis.next_attempt_at === null ? null : (
            <span>
              Next attempt <Time value={diagnosis.next_attempt_at} />
            </span>
          )}
          {diagnosis === undefined || diagnosis.gives_up_at === null ? null : (
            <span>
              Gives up <Time value={diagnosis.gives_up_at} />
            </span>
          )}
          {reachable === undefined ? null : (
            <span>
              Checked <Time value={reachable.checked_at} />
            </span>
          )}
          {agent.status === "running" ? null : (
            <span>
              Last change <Time value={agent.updated_at} />
            </span>
          )}
        </p>
        {check === undefined ? null : <Stale live={check} missing="The agent’s address could not be checked." />}
        <NextSteps agent={agent} what={what} />
        {diagnosis === undefined ? null : (
          <Moments agentID={agent.id} moments={diagnosis.timeline} open={tone === "bad" || tone === "warn"} />
        )}
      </div>
    </section>
  );
}

function NextSteps({ agent, what }: { agent: Agent; what: Presentation }) {
  const { youCan, weWill, remedies, code } = what;
  return (
    <>
      {youCan.length === 0 ? null : (
        <div class="steps">
          <h3>What you can do</h3>
          {youCan.length === 1 ? (
            <p>{youCan[0]}</p>
          ) : (
            <ol>
              {youCan.map((step) => (
                <li key={step}>{step}</li>
              ))}
            </ol>
          )}
        </div>
      )}
      {weWill === "" ? null : (
        <div class="steps">
          <h3>What the service does</h3>
          <p>{weWill}</p>
        </div>
      )}
      {remedies.length === 0 ? null : (
        <div class="row">
          {remedies.map((remedy, position) => (
            <RemedyButton key={code + remedy} agent={agent} remedy={remedy} first={position === 0} />
          ))}
        </div>
      )}
    </>
  );
}

type LinkedRemedy = Exclude<Remedy, "start" | "restart" | "resume">;

interface RemedyLink {
  text: string;
  icon?: IconName;
  to: (agent: Agent) => string;
}

const toTab =
  (tab: TabName, query?: Record<string, string>) =>
  ({ id }: Agent): string =>
    tabHref(id, tab, query);

const toBilling = (): string => href(["billing"]);

/** Where the other steps are taken. Members may not read logs, and the page of the log says so. */
const remedyLinks: Record<LinkedRemedy, RemedyLink> = {
  "previous-logs": { text: "Read the previous run’s log", icon: "docs", to: toTab("logs", { source: "previous" }) },
  logs: { text: "Read the log", icon: "docs", to: toTab("logs") },
  metrics: { text: "See the metrics", icon: "usage", to: toTab("metrics") },
  variables: { text: "Check the variables", icon: "key", to: toTab("variables") },
  settings: { text: "Open the settings", to: toTab("settings") },
  credentials: { text: "See the rotation", icon: "key", to: toTab("credentials") },
  plans: { text: "Compare the plans", icon: "billing", to: toBilling },
  billing: { text: "See plan and payment", icon: "billing", to: toBilling },
};

/** A next step as a link or a button. */
function RemedyButton({ agent, remedy, first }: { agent: Agent; remedy: Remedy; first: boolean }) {
  if (remedy === "start" || remedy === "restart" || remedy === "resume") {
    return <ActionButton agent={agent} action={remedy} primary={first} />;
  }
  const { text, to, ...icon } = remedyLinks[remedy];
  return (
    <LinkButton kind={first ? "primary" : "normal"} href={to(agent)} {...icon}>
      {text}
    </LinkButton>
  );
}
