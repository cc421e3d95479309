import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { SubmitFailure } from "../ui/submit-failure";
import { Moment } from "./moment";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { otherImage } from "./snapshot-text";
import { useTypedName } from "./typed-name";
import { useAgentChange } from "./use-change";

/** Asks before the agent's data is replaced. */
export function RestoreDialog(props: { agent: Agent; snapshot: AgentSnapshot; onClose: () => void }) {
  const { agent, snapshot, onClose } = props;
  const body = { snapshot_id: snapshot.id };
  const change = { path: `${agentPath(agent.id)}/restore`, method: "POST", body } as const;
  const submit = useAgentChange(change, () => `“${agent.name}” is being restored.`, onClose);
  const name = useTypedName(agent, submit.send);
  return (
    <Dialog
      title={`Restore “${agent.name}”?`}
      onClose={onClose}
      onSubmit={name.confirm}
      action={
        <Button kind="danger" type="submit" icon="back" busy={submit.busy}>
          Restore the agent
        </Button>
      }
    >
      <p>
        Its volume is replaced by one with the data of{" "}
        <strong>
          <Moment value={snapshot.taken_at ?? snapshot.created_at} />
        </strong>
        , from the snapshot “{snapshot.name}”. Its variables, schedules, address and credentials stay as they are.
      </p>
      <OtherImage agent={agent} snapshot={snapshot} />
      {submit.busy ? null : <Forecast change={change} asOf={agent.status} downtime={downtimeOf(agent)} />}
      {name.field}
      <SubmitFailure submit={submit} title="The agent was not restored" />
    </Dialog>
  );
}

const downtimeOf = ({ status }: Agent): string =>
  `${status === "running" ? "It stops now, and starts again" : "It starts"} once its new volume is made. ` +
  "That usually takes a minute, and longer for a large volume.";

/** Warns of data that another version of the image wrote. */
function OtherImage({ agent, snapshot }: { agent: Agent; snapshot: AgentSnapshot }) {
  const other = otherImage(agent, snapshot);
  return other === undefined ? null : (
    <Notice tone="warn" title="Another version wrote this data">
      <p>
        The snapshot is from <code>{other.then}</code>, and the agent runs <code>{other.now}</code>, which stays. If
        that version cannot read the data, move the agent to the former one afterwards.
      </p>
    </Notice>
  );
}
