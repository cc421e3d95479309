import type { Agent } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { ActionButton } from "./actions";
import { Egress } from "./egress";
import { Software } from "./image";
import { agentPath } from "./paths";
import { PublicPaths } from "./public-paths";
import { Forecast } from "./rehearsal";
import { Resize } from "./resize";
import { Sleep } from "./sleep";
import { SubmitFailure } from "../ui/submit-failure";
import { useAgentChange } from "./use-change";

/**
 * What is rarely changed: the size, the image, when it sleeps, the public paths, what it reaches, the sandbox, the
 * client's own configuration, and the agent's end.
 */
export function SettingsTab({ agent }: { agent: Agent }) {
  return (
    <div class="stack">
      <Resize agent={agent} />
      <Software agent={agent} />
      <Sleep agent={agent} />
      <PublicPaths agent={agent} />
      <Egress agent={agent} />
      <Sandbox agent={agent} />
      <OwnConfig agent={agent} />
      <section class="card" aria-label="Delete the agent">
        <div class="head">
          <h2>Delete the agent</h2>
        </div>
        <div class="body stack">
          <p>The volume, the secrets and the address are lost for good. A dialog says more and asks for the name.</p>
          {agent.config.allowed_actions.includes("delete") ? (
            <div class="row">
              <ActionButton agent={agent} action="delete" />
            </div>
          ) : (
            <p class="quiet">The agent is being deleted already.</p>
          )}
        </div>
      </section>
    </div>
  );
}

function Sandbox({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [asking, setAsking] = useState(false);
  const on = agent.config.sandbox_enabled;
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  return (
    <section class="card" aria-label="Sandbox">
      <div class="head">
        <h2>Sandbox</h2>
        <span class={`badge tone-${on ? "good" : "idle"}`}>{on ? "On" : "Off"}</span>
      </div>
      <div class="body stack">
        <p>
          The sandbox puts a second kernel between the agent and its machine, so that code which the agent runs has a
          harder time to break out. System calls are slower in it, and some programs do not work.
        </p>
        <div class="row">
          <Button icon="lock" onClick={() => setAsking(true)} unavailable={unavailable}>
            {on ? "Turn the sandbox off" : "Turn the sandbox on"}
          </Button>
        </div>
        {asking ? <SandboxDialog agent={agent} enabled={!on} onClose={() => setAsking(false)} /> : null}
      </div>
    </section>
  );
}

function SandboxDialog(props: { agent: Agent; enabled: boolean; onClose: () => void }) {
  const { agent, onClose } = props;
  const [enabled] = useState(props.enabled); // what the person was asked, also if the agent changes in between
  const change = { path: `${agentPath(agent.id)}/migrate-sandbox`, method: "POST", body: { enabled } } as const;
  const submit = useAgentChange(change, () => (enabled ? "The sandbox is on." : "The sandbox is off."), onClose);
  const runs = ["running", "provisioning", "pending", "error"].includes(agent.status);
  const word = enabled ? "on" : "off";
  return (
    <Dialog
      title={`Turn the sandbox ${word}?`}
      onClose={onClose}
      onSubmit={submit.send}
      action={
        <Button kind="primary" type="submit" icon="lock" busy={submit.busy} autofocus>
          Turn the sandbox {word}
        </Button>
      }
    >
      <dl class="costs">
        <dt>What happens</dt>
        <dd>
          {runs
            ? `The pod is replaced by one ${enabled ? "in" : "outside"} the sandbox.`
            : "The change applies when the agent starts the next time."}
          {enabled && runs
            ? " If the region’s cluster does not provide the sandbox, the agent goes back by itself to how it ran " +
              "before."
            : ""}
        </dd>
        <dt>Downtime</dt>
        <dd>
          {runs
            ? "The dashboard and the API do not answer for some seconds. It takes minutes if a machine has to be added."
            : "None: no pod runs now."}
        </dd>
        <dt>What stays</dt>
        <dd>The volume, the address, the credentials and the price stay.</dd>
      </dl>
      {submit.busy ? null : <Forecast change={change} asOf={agent.status} />}
      <SubmitFailure submit={submit} title="The sandbox was not changed" />
    </Dialog>
  );
}

/** The keys of config that the control plane fills. */
const filled = [
  "provisioning_stages",
  "status_reason",
  "allowed_actions",
  "sandbox_enabled",
  "plan_limits",
  "error",
];

/** Whether a value has a number that the browser may have rounded when it read the answer. */
function isRounded(value: unknown): boolean {
  if (typeof value === "number") {
    return Math.abs(value) > Number.MAX_SAFE_INTEGER;
  }
  return typeof value === "object" && value !== null && Object.values(value).some(isRounded);
}

/** What API clients keep in config. */
function OwnConfig({ agent }: { agent: Agent }) {
  const own = Object.entries(agent.config).filter(([key]) => !filled.includes(key));
  if (own.length === 0) {
    return null;
  }
  return (
    <section class="card" aria-label="Configuration">
      <div class="head">
        <h2>Configuration</h2>
      </div>
      <div class="body stack">
        <p class="quiet">
          What API clients keep in the field “config” of the agent, and what the agent finds in the file that its
          variable AGENT_CONFIG_FILE names. Change it with the API, which replaces the pod.
        </p>
        {own.some(([, value]) => isRounded(value)) ? (
          <p>Browsers round very large numbers, so some of them look different here. The agent has the exact ones.</p>
        ) : null}
        <pre class="code" tabIndex={0} aria-label="Configuration as JSON">
          {JSON.stringify(Object.fromEntries(own), null, 2)}
        </pre>
      </div>
    </section>
  );
}
