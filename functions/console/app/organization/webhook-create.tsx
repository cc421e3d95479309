import type { CreatedWebhook } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { useSubmit } from "../api/submit";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { SubmitFailure } from "../ui/submit-failure";
import { webhooksPath } from "./paths";
import { type WebhookDraft, WebhookForm } from "./webhook-form";
import { ShownSecret } from "./webhook-secret";

const none: WebhookDraft = { url: "", description: "", types: [] };

/** Creates a webhook, then shows its signing secret. */
export function CreateWebhook({ onChange, onClose }: { onChange: () => void; onClose: () => void }) {
  const [created, setCreated] = useState<CreatedWebhook>();
  const creation = useSubmit<WebhookDraft>(async (intent, body) => {
    setCreated((await call<CreatedWebhook>(webhooksPath, { method: "POST", body, intent })).data);
    onChange();
  });
  if (created === undefined) {
    return (
      <WebhookForm
        title="Create a webhook"
        label="Create the webhook"
        start={none}
        submit={creation}
        onClose={onClose}
      />
    );
  }
  return created.secret === null ? (
    <LostSecret created={created} onChange={onChange} onAgain={() => setCreated(undefined)} onClose={onClose} />
  ) : (
    <ShownSecret secret={created.secret} onClose={onClose} />
  );
}

/** The first answer got lost on its way, and a repeat does not return the secret. */
function LostSecret(props: {
  created: CreatedWebhook;
  onChange: () => void;
  onAgain: () => void;
  onClose: () => void;
}) {
  const { created, onChange, onAgain, onClose } = props;
  const deletion = useSubmit(async (intent) => {
    await call(`${webhooksPath}/${created.id}`, { method: "DELETE", intent });
    onChange();
    onAgain();
  });
  return (
    <Dialog
      title="The webhook was created, but its secret is lost"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" busy={deletion.busy} onClick={() => void deletion.send()}>
            Delete it and start again
          </Button>
        </>
      }
    >
      <p>
        The service created the webhook, but its answer did not arrive, and a repeated call does not return the secret.
        Delete the webhook and create another one.
      </p>
      <SubmitFailure submit={deletion} title="The webhook was not deleted" />
    </Dialog>
  );
}
