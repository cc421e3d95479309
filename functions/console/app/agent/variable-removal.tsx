import type { Agent, SecretChanges } from "@agents.example/client/schema";
import { call } from "../api/client";
import { refreshLive } from "../api/live";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { useSubmit } from "../api/submit";
import { SubmitFailure } from "../ui/submit-failure";
import { costOf } from "./variable-cost";
import { setPlain } from "./variable-draft";

/** Asks before a variable or a secret is deleted. */
export function RemoveVariable(props: { agent: Agent; name: string; secret: boolean; onClose: () => void }) {
  const { agent, name, secret, onClose } = props;
  const path = `${agentPath(agent.id)}/secrets/${encodeURIComponent(name)}`;
  const submit = useSubmit(async (intent) => {
    if (secret) {
      await call<SecretChanges>(path, { method: "DELETE", intent });
    } else {
      await setPlain(agent.id, { [name]: null }, intent);
    }
    refreshLive(`${agentPath(agent.id)}/secret`);
    toast(secret ? `${name} is being deleted.` : `${name} is deleted.`);
    onClose();
  });
  return (
    <Dialog
      title={`Delete ${name}?`}
      onClose={onClose}
      onSubmit={() => void submit.send()}
      careful
      action={
        <Button kind="danger" type="submit" icon="trash" busy={submit.busy}>
          Delete {name}
        </Button>
      }
    >
      <dl class="costs">
        <dt>What happens</dt>
        <dd>
          {secret
            ? "The agent runs without it. Then all its versions are destroyed, and the value cannot be restored."
            : "The agent runs without it. The service does not keep the value."}
        </dd>
        <dt>Downtime</dt>
        <dd>{costOf(agent)}</dd>
      </dl>
      {submit.busy ? null : (
        <Forecast
          change={
            secret
              ? { path, method: "DELETE" }
              : { path: agentPath(agent.id), method: "PATCH", body: { env_vars: { [name]: null } } }
          }
          asOf={agent.status}
        />
      )}
      <SubmitFailure submit={submit} title={`${name} was not deleted`} />
    </Dialog>
  );
}
