import type { RotatedWebhook, Webhook } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { useSubmit } from "../api/submit";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { Checkbox } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { Time } from "../ui/time";
import { webhookPath } from "./paths";
import { ShownSecret } from "./webhook-secret";

/** Asks before a webhook gets a new signing secret, then shows it. */
export function RotateSecret({ hook, onClose }: { hook: Webhook; onClose: () => void }) {
  const [rotated, setRotated] = useState<RotatedWebhook>();
  const [leaked, setLeaked] = useState(false);
  const rotation = useSubmit(async (intent) => {
    const path = `${webhookPath(hook.id)}/rotate-secret`;
    const body = leaked ? { keep_former_seconds: 0 } : {};
    setRotated((await call<RotatedWebhook>(path, { method: "POST", intent, body })).data);
  });
  if (rotated !== undefined && rotated.secret !== null) {
    return (
      <ShownSecret secret={rotated.secret} onClose={onClose}>
        {leaked ? (
          "The receiver refuses deliveries until it has this secret. The former one signs none anymore."
        ) : (
          <>
            Deliveries are signed with the former secret, too. That ends <Time value={rotated.former_secrets_until} />.
          </>
        )}
      </ShownSecret>
    );
  }
  return (
    <Dialog
      title="Rotate the signing secret?"
      onClose={onClose}
      onSubmit={rotation.send}
      action={
        <Button kind="primary" type="submit" icon="refresh" busy={rotation.busy} autofocus>
          Rotate the secret
        </Button>
      }
    >
      <dl class="costs">
        <dt>What happens</dt>
        <dd>The webhook gets a new secret, which is shown once. Give it to the receiver.</dd>
        <dt>The former secret</dt>
        <dd>
          For 24 hours, deliveries are signed with the former secret, too, so that the receiver accepts them before and
          after it gets the new one. If you rotate more often, up to three former secrets sign.
        </dd>
      </dl>
      <Checkbox
        label="End all former secrets now"
        hint="If one is known to others. The receiver refuses deliveries until it has the new secret."
        checked={leaked}
        onChange={(on) => {
          rotation.forget();
          setLeaked(on);
        }}
      />
      {rotated === undefined ? null : <LostSecret />}
      <SubmitFailure submit={rotation} title="The secret was not rotated" />
    </Dialog>
  );
}

/** The first answer got lost on its way, and a repeat does not return the secret. */
function LostSecret() {
  return (
    <Notice tone="warn" live title="The new secret is lost">
      The service rotated the secret, but its answer did not arrive, and a repeated call does not return the secret.
      Rotate it once more. Unless you ended it, the receiver’s secret signs deliveries as before.
    </Notice>
  );
}
