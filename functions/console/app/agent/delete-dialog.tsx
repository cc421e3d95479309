import type { Agent, Plan } from "@agents.example/client/schema";
import { useLive } from "../api/live";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { formatBytes } from "../ui/format";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { useTypedName } from "./typed-name";
import { SubmitFailure } from "../ui/submit-failure";
import { useAgentChange } from "./use-change";

const plansEvery = 600_000;

/** Asks before an agent is deleted. */
export function DeleteDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const change = { path: agentPath(agent.id), method: "DELETE" } as const;
  const submit = useAgentChange(change, () => `“${agent.name}” is being deleted.`, onClose);
  const name = useTypedName(agent, submit.send);
  return (
    <Dialog
      title={`Delete “${agent.name}”?`}
      onClose={onClose}
      onSubmit={name.confirm}
      action={
        <Button kind="danger" type="submit" icon="trash" busy={submit.busy}>
          Delete the agent
        </Button>
      }
    >
      <p>The agent stops within seconds. These are lost for good:</p>
      <ul class="losses">
        <li>
          <strong>Its volume</strong>, with up to {formatBytes(agent.config.plan_limits.storage_bytes)} of files.{" "}
          <Backups agent={agent} />
        </li>
        <li>
          <strong>Its snapshots.</strong> Export those that you want to keep. Agents that were made from them stay.
        </li>
        <li>
          <strong>Its secrets and credentials.</strong> Their values are destroyed.
        </li>
        <li>
          <strong>Its address</strong>
          {agent.hostname === null ? "" : <>, {<code>{agent.hostname}</code>}</>}. Another agent never gets the same
          one.
        </li>
      </ul>
      <p>Its place in your plan becomes free immediately.</p>
      <Forecast change={change} asOf={agent.status} />
      {name.field}
      <SubmitFailure submit={submit} title="The agent was not deleted" />
    </Dialog>
  );
}

/** What remains of the volume. The plan of the agent decides, not that of the organization. */
function Backups({ agent }: { agent: Agent }) {
  const plans = useLive<Plan[]>("/api/v1/billing/plans", { every: plansEvery });
  const plan = plans.data?.find(({ id }) => id === agent.resource_plan);
  switch (plan?.features.includes("daily_backups")) {
    case true:
      return <>Support can restore the last daily backup for a week. What was written after it is lost.</>;
    case false:
      return <>No copy outlives the agent.</>;
    default:
      return <>Only plans with daily backups keep a copy, for a week.</>;
  }
}
