import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { refreshLive } from "../api/live";
import { useChange } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { formatBytes } from "../ui/format";
import { SubmitFailure } from "../ui/submit-failure";
import { Moment } from "./moment";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { snapshotPath } from "./use-snapshots";

/** Asks before a snapshot is deleted, which cannot be undone. */
export function DeleteSnapshot(props: { agent: Agent; snapshot: AgentSnapshot; onClose: () => void }) {
  const { agent, snapshot, onClose } = props;
  const { name, taken_at, size_bytes } = snapshot;
  const change = { path: snapshotPath(snapshot), method: "DELETE" } as const;
  const submit = useChange<AgentSnapshot>(change, () => {
    refreshLive(agentPath(agent.id));
    toast(`The snapshot “${name}” is being deleted.`);
    onClose();
  });
  return (
    <Dialog
      title={`Delete the snapshot “${name}”?`}
      onClose={onClose}
      onSubmit={submit.send}
      careful
      action={
        <Button kind="danger" type="submit" icon="trash" busy={submit.busy}>
          Delete the snapshot
        </Button>
      }
    >
      {taken_at === null ? (
        <p>It has no data yet. The agent itself stays as it is.</p>
      ) : (
        <p>
          The data of{" "}
          <strong>
            <Moment value={taken_at} />
          </strong>
          {size_bytes === null ? "" : ` (${formatBytes(size_bytes)})`} is lost for good, unless another snapshot has
          it, too. The agent itself, and agents that were made from the snapshot, stay as they are.
        </p>
      )}
      {submit.busy ? null : (
        <Forecast change={change} asOf={agent.status + snapshot.status} downtime="The agent is not touched." />
      )}
      <SubmitFailure submit={submit} title="The snapshot was not deleted" />
    </Dialog>
  );
}
