import type { CreatedWebhook } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { useSubmit } from "../api/submit";
import { Button } from "../ui/button";
import { SecretValue } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { Failure, Notice } from "../ui/feedback";
import { Checkbox } from "../ui/field";
import { webhooksPath } from "./paths";
import { type WebhookDraft, WebhookForm } from "./webhook-form";

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

const leave = "The secret cannot be shown again. Close without saving it?";

function ShownSecret({ secret, onClose }: { secret: string; onClose: () => void }) {
  const [saved, setSaved] = useState(false);
  return (
    <Dialog
      title="Save the signing secret now"
      onClose={() => {
        if (saved || confirm(leave)) {
          onClose();
        }
      }}
      foot={
        <Button
          kind="primary"
          unavailable={saved ? undefined : "Confirm first that you saved the secret."}
          onClick={onClose}
        >
          Done
        </Button>
      }
    >
      <Notice tone="warn" live>
        This is the only time that the secret is shown.
      </Notice>
      <SecretValue value={secret} what="secret" />
      <p class="small quiet">
        Give it to the receiver, which checks with it that a request comes from this service. The libraries of{" "}
        <a href="https://www.standardwebhooks.com" target="_blank" rel="noreferrer">
          Standard Webhooks
        </a>{" "}
        take it as it is.
      </p>
      <Checkbox label="I have saved the secret" checked={saved} onChange={setSaved} />
    </Dialog>
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
      {deletion.error === undefined ? null : (
        <Failure error={deletion.error} busy={deletion.busy} retry={() => void deletion.send()} />
      )}
    </Dialog>
  );
}
