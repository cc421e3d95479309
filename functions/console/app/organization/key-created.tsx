import type { CreatedAPIKey } from "@agents.example/client/schema";
import { call } from "../api/client";
import { Button } from "../ui/button";
import { CopyButton } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { SubmitFailure } from "../ui/submit-failure";
import { ShownOnce } from "../ui/shown-once";
import { Time } from "../ui/time";
import { useSubmit } from "../api/submit";
import { keysPath } from "./paths";

interface Props {
  created: CreatedAPIKey;
  onChange: () => void;
  /** Returns to the form. */
  onAgain: () => void;
  onClose: () => void;
}

/** What a person does with a key that was just created. */
export function CreatedKey(props: Props) {
  const { secret } = props.created;
  return secret === null ? <LostSecret {...props} /> : <ShownSecret {...props} secret={secret} />;
}

function ShownSecret({ created, secret, onClose }: Props & { secret: string }) {
  const command = `curl -H "Authorization: Bearer $AGENTS_API_KEY" ${location.origin}/api/v1/agents`;
  return (
    <ShownOnce
      title={`Save the key “${created.name}” now`}
      what="key"
      secret={secret}
      warning="This is the only time that the key is shown. The service stores no copy from which it can be read again."
      hint="For example in a password manager or in the secrets of the program that uses it."
      onClose={onClose}
    >
      <p class="small quiet">
        {created.expires_at === null ? (
          "It does not expire."
        ) : (
          <>
            It expires on <Time value={created.expires_at} date />.
          </>
        )}{" "}
        To try it, put it into the variable <code>AGENTS_API_KEY</code> and run:
      </p>
      <div class="command">
        <code>{command}</code>
        <CopyButton text={command} what="command" />
      </div>
    </ShownOnce>
  );
}

/** The first answer got lost on its way, and a repeat does not return the secret. */
function LostSecret({ created, onChange, onAgain, onClose }: Props) {
  const revocation = useSubmit<string>(async (intent, id) => {
    await call(`${keysPath}/${id}`, { method: "DELETE", intent });
    onChange();
    onAgain();
  });
  return (
    <Dialog
      title="The key was created, but its secret is lost"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" busy={revocation.busy} onClick={() => void revocation.send(created.id)}>
            Revoke it and start again
          </Button>
        </>
      }
    >
      <p>
        The service created the key “{created.name}”, but its answer did not arrive, and a repeated call does not
        return the secret. The key is of no use. Revoke it and create another one.
      </p>
      <SubmitFailure submit={revocation} title={`The key “${created.name}” was not revoked`} />
    </Dialog>
  );
}
