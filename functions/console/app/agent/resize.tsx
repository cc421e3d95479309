import type { Agent, Organization, Plan } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { useLive } from "../api/live";
import { organizationPath, plansPath } from "../organization/paths";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Select } from "../ui/field";
import { formatBytes, formatCores, planName } from "../ui/format";
import { SubmitFailure } from "../ui/submit-failure";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { useAgentChange } from "./use-change";

/** The agent's size, which can grow. */
export function Resize({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [asking, setAsking] = useState(false);
  const { plan_limits: limits } = agent.config;
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  return (
    <section class="card" aria-label="Size">
      <div class="head">
        <h2>Size</h2>
        <span class="badge tone-idle">{planName(agent.resource_plan)}</span>
      </div>
      <div class="body stack">
        <p>
          Up to {formatCores(limits.cpu_cores)} and {formatBytes(limits.memory_bytes)} of memory, and a volume of{" "}
          {formatBytes(limits.storage_bytes)}. The volume grows with the size and never shrinks, so the size can only
          grow.
        </p>
        <div class="row">
          <Button icon="up" onClick={() => setAsking(true)} unavailable={unavailable}>
            Change the size
          </Button>
        </div>
        {asking ? <SizeDialog agent={agent} onClose={() => setAsking(false)} /> : null}
      </div>
    </section>
  );
}

function SizeDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const plans = useLive<Plan[]>(plansPath, { every: 300_000 }).data ?? [];
  const organization = useLive<Organization>(organizationPath, { every: 30_000 }).data;
  const [present] = useState(agent.config.plan_limits.storage_bytes); // also if the answer is lost and the agent grows
  const larger = plans.filter(({ agent: size }) => size.storage_bytes > present);
  const [chosen, setChosen] = useState("");
  const plan = larger.find(({ id }) => id === chosen) ?? larger[0];
  const change = { path: agentPath(agent.id), method: "PATCH", body: { resource_plan: plan?.id } } as const;
  const submit = useAgentChange(change, () => "The size was changed.", onClose);
  const runs = ["running", "provisioning", "pending", "error"].includes(agent.status);
  return (
    <Dialog
      title="Change the size?"
      onClose={onClose}
      onSubmit={() => {
        if (plan !== undefined) {
          submit.send();
        }
      }}
      action={
        <Button
          kind="primary"
          type="submit"
          busy={submit.busy}
          unavailable={plan === undefined ? "There is no larger size." : undefined}
          autofocus
        >
          Change the size
        </Button>
      }
    >
      <Select
        label="New size"
        value={plan?.id ?? ""}
        onChange={setChosen}
        options={larger.map(({ id, name, agent: size }) => ({
          value: id,
          label:
            `${name}: ${formatCores(size.cpu_cores)}, ${formatBytes(size.memory_bytes)} memory, ` +
            `${formatBytes(size.storage_bytes)} storage`,
        }))}
      />
      <dl class="costs">
        <dt>What happens</dt>
        <dd>
          {runs
            ? "The volume grows, and the pod is replaced by one of the new size."
            : "The agent has the new size when it starts the next time. Its volume counts from now on."}
        </dd>
        <dt>What it costs</dt>
        <dd>
          The organization pays for its plan
          {organization === undefined ? "" : ` ${planName(organization.plan)}`}, not for each agent. A larger agent
          takes up more of it, and cannot be made smaller again.
        </dd>
        <dt>What stays</dt>
        <dd>The data on the volume, the address and the credentials stay.</dd>
      </dl>
      {submit.busy || plan === undefined ? null : <Forecast change={change} asOf={agent.status} />}
      <SubmitFailure submit={submit} title="The size was not changed" retry="submit" />
    </Dialog>
  );
}
