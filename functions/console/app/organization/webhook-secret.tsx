import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../ui/button";
import { SecretValue } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { Checkbox } from "../ui/field";

const leave = "The secret cannot be shown again. Close without saving it?";

/** Shows a signing secret, which no later answer of the service has. The children say more about its use. */
export function ShownSecret(props: { secret: string; onClose: () => void; children?: ComponentChildren }) {
  const { secret, onClose, children } = props;
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
        take it as it is. {children}
      </p>
      <Checkbox label="I have saved the secret" checked={saved} onChange={setSaved} />
    </Dialog>
  );
}
