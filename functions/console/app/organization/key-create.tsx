import type { CreateAPIKeyRequest, CreatedAPIKey, ValidationError } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useMe } from "../account";
import { call } from "../api/client";
import { describe, violationsAt } from "../api/errors";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure, Notice } from "../ui/feedback";
import { Select, TextField } from "../ui/field";
import { CreatedKey } from "./key-created";
import { lifetimes, purposes, roles } from "./key-purpose";
import { useSubmit } from "../api/submit";
import { keysPath } from "./paths";

const maxName = 80;
const usualLifetime = "90";

/** Creates a key, then shows its secret. */
export function CreateKey({ onChange, onClose }: { onChange: () => void; onClose: () => void }) {
  const [created, setCreated] = useState<CreatedAPIKey>();
  if (created !== undefined) {
    return (
      <CreatedKey created={created} onChange={onChange} onAgain={() => setCreated(undefined)} onClose={onClose} />
    );
  }
  return (
    <KeyForm
      onClose={onClose}
      onCreated={(key) => {
        setCreated(key);
        onChange();
      }}
    />
  );
}

function KeyForm({ onCreated, onClose }: { onCreated: (key: CreatedAPIKey) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [purpose, setPurpose] = useState("script");
  const [role, setRole] = useState("admin");
  const [lifetime, setLifetime] = useState(usualLifetime);
  const [missing, setMissing] = useState(false);
  const withKey = useMe().api_key !== null;
  const creation = useSubmit<CreateAPIKeyRequest>(async (intent, body) => {
    onCreated((await call<CreatedAPIKey>(keysPath, { method: "POST", body, intent })).data);
  });
  const submit = async () => {
    const trimmed = name.trim();
    setMissing(trimmed === "");
    if (trimmed !== "") {
      const days = lifetime === "" ? null : Number(lifetime);
      await creation.send({ name: trimmed, purpose, role, expires_in_days: days });
    }
  };
  const wrong = (field: string): string[] => violationsAt(creation.error, field).map((violation) => violation.msg);
  const elsewhere = creation.error?.violations.every(isShown) === true && creation.error.violations.length > 0;
  return (
    <Dialog
      title="Create an API key"
      onClose={onClose}
      onSubmit={submit}
      typed={name !== ""}
      action={
        <Button kind="primary" type="submit" busy={creation.busy}>
          Create the key
        </Button>
      }
    >
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        maxLength={maxName}
        autofocus
        required
        wrong={missing && name.trim() === "" ? ["Give the key a name."] : wrong("name")}
        hint="Where the key is used, such as “Deployments”. You find it again by its name."
      />
      <Select label="Purpose" value={purpose} options={purposes} onChange={setPurpose} wrong={wrong("purpose")} />
      <Select
        label="Role"
        value={role}
        options={roles}
        onChange={setRole}
        wrong={wrong("role")}
        hint="A program that only watches needs a key that may only read. The role of a key cannot be changed."
      />
      <Select
        label="Expires after"
        value={lifetime}
        options={lifetimes}
        onChange={setLifetime}
        wrong={wrong("expires_in_days")}
        hint={
          withKey
            ? "You are signed in with an API key. The new key expires with that key at the latest."
            : "A key that is lost does less harm if it expires."
        }
      />
      {creation.error === undefined || elsewhere ? null : creation.error.code === "api_key_limit_reached" ? (
        <Notice tone="bad" live title="No further key can be created">
          {creation.error.message} The list shows when each key was last used.
        </Notice>
      ) : (
        <Failure error={creation.error} retry="submit" busy={creation.busy} />
      )}
    </Dialog>
  );
}

/** Whether a violation is shown at its field. */
const isShown = (violation: ValidationError): boolean =>
  ["name", "purpose", "role", "expires_in_days"].some((field) => describe(violation).startsWith(`${field}:`));
