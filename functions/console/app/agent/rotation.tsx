import type { Agent, SecretOperation } from "@agents.example/client/schema";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Live } from "../api/live";
import { announce } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Following, Notice } from "../ui/feedback";
import { SubmitFailure } from "../ui/submit-failure";
import { Time } from "../ui/time";
import { OpenOperation, OperationHead } from "./open-operation";
import { isOpen } from "./operation-text";
import { agentPath } from "./paths";
import { useAgentChange } from "./use-change";
import { rotationMoves, rotationOf, useOperations } from "./use-rotation";

/** Replaces the credentials, and shows how far the replacement is. */
export function Rotation({ agent }: { agent: Agent }) {
  const [asking, setAsking] = useState(false);
  const live = useOperations(agent);
  const pending = agent.credential_rotation_pending;
  const moves = rotationMoves(agent, rotationOf(live.data));
  useEndAnnouncement(pending);
  return (
    <section class="card" aria-label="Rotation">
      <div class="head">
        <h2>Rotation</h2>
        <span class="actions">
          <Button icon="refresh" onClick={() => setAsking(true)} unavailable={unavailable(agent, moves)} busy={moves}>
            {moves ? "Rotating …" : "Rotate the credentials"}
          </Button>
        </span>
      </div>
      <div class="body stack">
        <p class="quiet">
          Rotate if the credentials may be known to people who should not know them. The agent gets a new password and a
          new API key, and the old ones stop working.
        </p>
        <LastRotation agent={agent} live={live} />
      </div>
      {asking ? <RotateDialog agent={agent} onClose={() => setAsking(false)} /> : null}
    </section>
  );
}

function unavailable(agent: Agent, moves: boolean): string | undefined {
  switch (true) {
    case agent.status === "deleting":
      return "The agent is being deleted.";
    case moves:
      return "A rotation is under way.";
    case agent.credential_rotation_pending:
      return "The last rotation has not ended. What you can do about it is below.";
    default:
      return undefined;
  }
}

function useEndAnnouncement(pending: boolean): void {
  const was = useRef(pending);
  useEffect(() => {
    if (was.current && !pending) {
      announce("The new credentials work, and the old ones do not work any more.");
    }
    was.current = pending;
  }, [pending]);
}

function LastRotation({ agent, live }: { agent: Agent; live: Live<SecretOperation[]> }) {
  return (
    <Following live={live} what="the rotation">
      {(operations) => {
        const last = rotationOf(operations);
        if (last !== undefined && isOpen(last)) {
          return (
            <ul class="operations">
              <OpenOperation agent={agent} operation={last} />
            </ul>
          );
        }
        if (agent.credential_rotation_pending) {
          return <p class="quiet">The rotation begins.</p>;
        }
        return last === undefined ? (
          <p class="quiet">The credentials were never rotated.</p>
        ) : (
          <Ended operation={last} />
        );
      }}
    </Following>
  );
}

const Ended = ({ operation }: { operation: SecretOperation }) =>
  operation.status === "succeeded" ? (
    <Notice tone="good" title="The newest credentials are in use">
      <p>
        Rotated <Time value={operation.updated_at} />. The agent accepts the new credentials, and refuses the old ones.
      </p>
    </Notice>
  ) : (
    <OperationHead operation={operation} />
  );

function RotateDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const runs = agent.status === "running";
  const submit = useAgentChange(
    { path: `${agentPath(agent.id)}/credentials/rotate`, method: "POST" },
    () => "The credentials are being rotated.",
    onClose,
  );
  return (
    <Dialog
      title="Rotate the credentials?"
      onClose={onClose}
      onSubmit={submit.send}
      action={
        <Button kind="primary" type="submit" icon="refresh" busy={submit.busy} autofocus>
          Rotate the credentials
        </Button>
      }
    >
      <dl class="costs">
        <dt>What happens</dt>
        <dd>
          The agent gets a new password and a new API key. Everything that uses the old ones must get the new ones from
          here: reveal them after the rotation.
        </dd>
        <dt>Downtime</dt>
        <dd>
          {runs
            ? "The pod is replaced: the dashboard and the API do not answer for some seconds. " +
              "The old credentials work " +
              "until then."
            : "None: no pod runs now. The rotation ends at the next start."}
        </dd>
        <dt>What stays</dt>
        <dd>The user name, the address, the volume and all your variables and secrets stay.</dd>
      </dl>
      <SubmitFailure submit={submit} title="The credentials were not rotated" />
    </Dialog>
  );
}
