import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button } from "./button";
import { SecretValue } from "./copy";
import { Dialog } from "./dialog";
import { Notice } from "./feedback";
import { Checkbox } from "./field";

interface Props {
  title: string;
  /** What the secret is, such as "key". */
  what: string;
  secret: string;
  /** What is said of the one time that it is shown. */
  warning: string;
  /** Where it can be saved. */
  hint?: string;
  onClose: () => void;
  /** How it is used. */
  children: ComponentChildren;
}

/** Shows a secret that no later answer of the service has, until the person says that it is saved. */
export function ShownOnce({ title, what, secret, warning, hint, onClose, children }: Props) {
  const [saved, setSaved] = useState(false);
  const close = () => {
    if (saved || confirm(`The ${what} cannot be shown again. Close without saving it?`)) {
      onClose();
    }
  };
  return (
    <Dialog
      title={title}
      onClose={close}
      foot={
        <Button
          kind="primary"
          unavailable={saved ? undefined : `Confirm first that you saved the ${what}.`}
          onClick={onClose}
        >
          Done
        </Button>
      }
    >
      <Notice tone="warn" live>
        {warning}
      </Notice>
      <SecretValue value={secret} what={what} />
      {children}
      <Checkbox label={`I have saved the ${what}`} hint={hint} checked={saved} onChange={setSaved} />
    </Dialog>
  );
}
