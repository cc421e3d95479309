import type { ComponentChildren } from "preact";
import { ShownOnce } from "../ui/shown-once";

/** Shows a signing secret. The children say more about its use. */
export function ShownSecret(props: { secret: string; onClose: () => void; children?: ComponentChildren }) {
  const { secret, onClose, children } = props;
  return (
    <ShownOnce
      title="Save the signing secret now"
      what="secret"
      secret={secret}
      warning="This is the only time that the secret is shown."
      onClose={onClose}
    >
      <p class="small quiet">
        Give it to the receiver, which checks with it that a request comes from this service. The libraries of{" "}
        <a href="https://www.standardwebhooks.com" target="_blank" rel="noreferrer">
          Standard Webhooks
        </a>{" "}
        take it as it is. {children}
      </p>
    </ShownOnce>
  );
}
