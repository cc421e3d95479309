import type { APIKey } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useMe } from "../account";
import { call } from "../api/client";
import { endSession } from "../session/session";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { Checkbox } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { Time } from "../ui/time";
import { useSubmit } from "../api/submit";
import { keysPath } from "./paths";

interface Props {
  apiKey: APIKey;
  /** The keys that are known, to find those that the key created. */
  keys: APIKey[];
  onChange: () => void;
  onClose: () => void;
}

/** Asks before a key is revoked, and says whom it concerns. */
export function RevokeKey({ apiKey, keys, onChange, onClose }: Props) {
  const [descendants, setDescendants] = useState(false);
  const own = useMe().api_key;
  const made = descendantsOf(apiKey.id, keys);
  const endsSession = own !== null && (own.id === apiKey.id || (descendants && made.some(({ id }) => id === own.id)));
  const revocation = useSubmit<boolean>(async (intent, all) => {
    const query = { descendants: all ? true : undefined };
    await call(`${keysPath}/${apiKey.id}`, { method: "DELETE", query, intent });
    if (endsSession) {
      endSession();
      return;
    }
    const revoked = all ? `key ${apiKey.name} and the keys that it created are` : `key ${apiKey.name} is`;
    toast(`The ${revoked} revoked.`);
    onChange();
    onClose();
  });
  return (
    <Dialog
      title={`Revoke the key “${apiKey.name}”?`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button
            kind="danger"
            icon="trash"
            busy={revocation.busy}
            onClick={() => void revocation.send(descendants)}
          >
            {endsSession ? "Revoke and sign out" : "Revoke"}
          </Button>
        </>
      }
    >
      <p>
        After that, every request with the key <code>{apiKey.key_prefix}…</code> is refused. This cannot be
        undone.{" "}
        {apiKey.last_used_at === null ? (
          "The key was never used."
        ) : (
          <>
            It was last used <Time value={apiKey.last_used_at} />.
          </>
        )}
      </p>
      {endsSession ? (
        <Notice tone="warn" live title="You are signed in with this key">
          Your session ends with it, and you need another key or token to go on.
        </Notice>
      ) : null}
      <Checkbox
        label="Also revoke the keys that it created"
        hint={
          "And the keys that those created, and so on. Without this, they stay valid. " +
          (made.length === 0 ? "None of the listed keys was created with this one." : `Listed: ${namesOf(made)}.`)
        }
        checked={descendants}
        onChange={setDescendants}
      />
      <SubmitFailure submit={revocation} title={`The key “${apiKey.name}” was not revoked`} />
    </Dialog>
  );
}

/** The listed keys that a key created, and those that they created. A revoked key in between hides its descendants. */
function descendantsOf(id: string, keys: APIKey[]): APIKey[] {
  const found: APIKey[] = [];
  const parents = [id];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const key of keys) {
      if (key.created_by === parent && !found.includes(key)) {
        found.push(key);
        parents.push(key.id);
      }
    }
  }
  return found;
}

const maxNamed = 5;

function namesOf(keys: APIKey[]): string {
  const names = keys.slice(0, maxNamed).map((key) => key.name);
  const rest = keys.length - names.length;
  return names.join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
