import type { Agent, DashboardReachability, Diagnosis } from "@agents.example/client/schema";
import { useEffect } from "preact/hooks";
import { useReadOnly } from "../account";
import { type Live, useLive } from "../api/live";
import { page } from "../page";
import { href } from "../router";
import { LinkButton } from "../ui/button";
import { Stale } from "../ui/feedback";
import { Icon, type IconName } from "../ui/icons";
import { Time } from "../ui/time";
import { toneIcons } from "../ui/tone";
import { ActionButton } from "./actions";
import { type Presentation, type Remedy, show } from "./diagnosis";
import type { Fact } from "./diagnosis-text";
import { LogTail, useTail } from "./log-tail";
import { ClockTime } from "./moment";
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
  const admin = useReadOnly() === undefined;
  const what = show(agent, diagnosis, reachable);
  const { tone, title, text, code, stage, facts, others } = what;
  const log = admin && tone === "bad" ? logOf(what) : undefined;
  const tail = useTail(agent, log);
  return (
    <section class={`card now tone-${tone}`} aria-label="What the agent is doing now">
      <span class="mark">
        <Icon name={tone === "busy" ? "busy" : toneIcons[tone]} turning={tone === "busy"} />
      </span>
      <div class="what">
        <h2>{title}</h2>
        {text === "" && facts.length === 0 ? null : (
          <p>
            {text}
            {facts.map((fact) => (
              <Sentence key={fact.text} fact={fact} />
            ))}
          </p>
        )}
        {others.map((other) => (
          <p key={other}>{other}</p>
        ))}
        {tail === undefined ? null : <LogTail agent={agent} tail={tail} />}
        {check === undefined ? null : <Stale live={check} missing="The agent’s address could not be checked." />}
        <NextSteps agent={agent} what={what} told={tail === undefined ? undefined : log} />
        <p class="small quiet facts-line">
          {stage === "" ? null : <span>Stage: {stage}</span>}
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
          {agent.status === "running" || facts.some(({ at }) => at !== undefined) ? null : (
            <span>
              Last change <Time value={agent.updated_at} />
            </span>
          )}
          {code === "" ? null : (
            <span>
              Code <code>{code}</code>
            </span>
          )}
        </p>
        {diagnosis === undefined ? null : <Moments agentID={agent.id} diagnosis={diagnosis} />}
      </div>
    </section>
  );
}

const Sentence = ({ fact: { text, at } }: { fact: Fact }) => (
  <>
    {" "}
    {text}
    {at === undefined ? null : (
      <>
        {" "}
        <ClockTime value={at} />
      </>
    )}
    .
  </>
);

/** Which log has the answer, if a log has it. */
const logOf = ({ remedies }: Presentation): "previous-logs" | "logs" | undefined =>
  remedies.find((remedy) => remedy === "previous-logs" || remedy === "logs");

/** What comes next. told is the remedy that the card has as the lines of the log and a link. */
function NextSteps(props: { agent: Agent; what: Presentation; told: Remedy | undefined }) {
  const { agent, what, told } = props;
  const { weWill, code } = what;
  const youCan = what.youCan.filter(({ remedy }) => told === undefined || remedy !== told);
  const remedies = what.remedies.filter((remedy) => remedy !== told && (remedy !== "support" || page.support !== ""));
  return (
    <>
      {youCan.length === 0 ? null : (
        <div class="steps">
          <h3>What you can do</h3>
          {youCan.length === 1 ? (
            <p>{youCan[0]?.text}</p>
          ) : (
            <ol>
              {youCan.map(({ text }) => (
                <li key={text}>{text}</li>
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

type LinkedRemedy = Exclude<Remedy, "start" | "restart" | "resume" | "support">;

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
  snapshots: { text: "See the snapshots", to: toTab("snapshots") },
  plans: { text: "Compare the plans", icon: "billing", to: toBilling },
  billing: { text: "See plan and payment", icon: "billing", to: toBilling },
};

/** Where to reach support. A mail names the agent, as support asks for that. */
const supportHref = ({ id, config: { error } }: Agent): string =>
  page.support.startsWith("mailto:")
    ? `${page.support}?subject=${encodeURIComponent(`Agent ${id}${error === null ? "" : `: ${error.code}`}`)}`
    : page.support;

/** A next step as a link or a button. */
function RemedyButton({ agent, remedy, first }: { agent: Agent; remedy: Remedy; first: boolean }) {
  if (remedy === "start" || remedy === "restart" || remedy === "resume") {
    return <ActionButton agent={agent} action={remedy} primary={first} />;
  }
  if (remedy === "support") {
    return (
      <LinkButton kind={first ? "primary" : "normal"} href={supportHref(agent)} icon="user" external>
        Contact support{page.support.startsWith("mailto:") ? `: ${page.support.slice(7)}` : ""}
      </LinkButton>
    );
  }
  const { text, to, ...icon } = remedyLinks[remedy];
  return (
    <LinkButton kind={first ? "primary" : "normal"} href={to(agent)} {...icon}>
      {text}
    </LinkButton>
  );
}
