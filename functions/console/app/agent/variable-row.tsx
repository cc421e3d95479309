import type { Agent } from "@agents.example/client/schema";
import { useEffect, useId, useRef } from "preact/hooks";
import { looksLikeEnv, parseEnv } from "../agents/env";
import { ValueInput } from "../agents/value-input";
import { Wrong } from "../agents/wrong-text";
import { Button } from "../ui/button";
import { isSecretRow, mustBeSecret, type Row } from "./variable-draft";
import { InjectChoice } from "./variable-inject";

/** A name and a value that a person types, and whether the value is a secret. */
export function VariableRow(props: {
  agent: Agent;
  row: Row;
  place: number;
  /** Whether the name is given. */
  fixed: boolean;
  /** Whether the agent has a secret with this name that stays outside it. */
  injected: boolean;
  wrong: string[];
  autofocus: boolean;
  onChange: (change: Partial<Row>) => void;
  onRemove: () => void;
  /** Takes the variables of a .env file that is pasted as a name, and the lines that could not be read. */
  onPaste: (entries: { key: string; value: string }[], rest: string) => void;
}) {
  const { agent, row, place, fixed, wrong, autofocus, onChange } = props;
  const id = useId();
  const name = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (autofocus && !fixed) {
      name.current?.focus();
    }
  }, []);
  const named = row.key === "" ? `variable ${place}` : row.key;
  const secret = isSecretRow(agent, row);
  const paste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData("text") ?? "";
    const { entries, rest } = parseEnv(text);
    if (row.key === "" && looksLikeEnv(text) && entries.length > 0) {
      event.preventDefault();
      props.onPaste(entries, rest);
    }
  };
  const invalid = wrong.length > 0 ? { "aria-invalid": "true" as const, "aria-describedby": `${id}-wrong` } : {};
  return (
    <div class="variable" role="group" aria-label={named}>
      <input
        ref={name}
        class="input mono"
        value={row.key}
        aria-label={`Name of ${named}`}
        placeholder="NAME"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        readOnly={fixed}
        autofocus={autofocus && !fixed}
        onInput={(event) => onChange({ key: event.currentTarget.value.trim() })}
        onPaste={paste}
        {...invalid}
      />
      <ValueInput
        value={row.value}
        named={named}
        secret={secret}
        autofocus={autofocus && fixed}
        onInput={(value) => onChange({ value })}
      />
      {fixed ? null : (
        <Button kind="plain" icon="close" iconOnly onClick={props.onRemove}>
          {`Remove ${named} from the form`}
        </Button>
      )}
      <SecretChoice {...props} />
      <InjectChoice agent={agent} row={row} fixed={props.injected} onChange={onChange} />
      <Wrong sentences={wrong} id={`${id}-wrong`} />
    </div>
  );
}

/** Whether the value goes to the secret store. What looks like a secret always does. */
function SecretChoice({ agent, row, onChange }: { agent: Agent; row: Row; onChange: (change: Partial<Row>) => void }) {
  const id = useId();
  const forced = mustBeSecret(agent, row);
  const known = row.key !== "" && row.key in agent.env_vars;
  return (
    <span class="keep small quiet">
      {forced === undefined ? (
        <>
          <input
            id={id}
            type="checkbox"
            checked={row.secret}
            onChange={(event) => onChange({ secret: event.currentTarget.checked })}
          />
          <label for={id}>Keep it as a secret</label>
        </>
      ) : (
        <span>{forced}</span>
      )}
      {known ? <span>Its present value is replaced.</span> : null}
    </span>
  );
}
