import type { Agent, Plan } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { putLive, useLive } from "../api/live";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/field";
import { formatBytes } from "../ui/format";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { useSubmit } from "../api/submit";
import { SubmitFailure } from "../ui/submit-failure";

const plansEvery = 600_000;

/** Asks before an agent is deleted. To type the name makes sure that it is the right one. */
export function DeleteDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [wrong, setWrong] = useState<string[]>([]);
  const submit = useSubmit(async (intent) => {
    const answer = await call<Agent>(agentPath(agent.id), { method: "DELETE", intent });
    putLive(agentPath(agent.id), answer.data);
    toast(`“${agent.name}” is being deleted.`);
    onClose();
  });
  const confirm = async () => {
    if (typed.trim() === agent.name) {
      await submit.send();
    } else {
      setWrong(["This is not the name of the agent."]);
    }
  };
  return (
    <Dialog
      title={`Delete “${agent.name}”?`}
      onClose={onClose}
      onSubmit={confirm}
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
      <Forecast change={{ path: agentPath(agent.id), method: "DELETE", status: agent.status }} />
      <TextField
        label={
          <>
            Type <code>{agent.name}</code> to confirm
          </>
        }
        value={typed}
        wrong={wrong}
        autofocus
        onInput={(value) => {
          setTyped(value);
          setWrong([]);
        }}
      />
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
