import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "../ui/button";
import { Icon } from "../ui/icons";
import { addVariables, changeVariable, draft, edit, removeVariable, type Variable } from "./draft";
import { EnvPaste } from "./env-paste";
import { looksLikeEnv, parseEnv } from "./env";
import { keepRest, type Pasted } from "./pasted";
import { isSecret } from "./secretlike";
import { ValueInput } from "./value-input";
import { Wrong } from "./wrong-text";

/** The variables of a new agent. Those that look like secrets are masked, as the service will treat them. */
export function Variables(props: {
  variables: Variable[];
  pasted: Pasted;
  wrong: Map<string | number, string[]>;
}) {
  const { variables, pasted, wrong } = props;
  const [focused, setFocused] = useState<number>();
  const secrets = variables.filter(({ key, value }) => isSecret(key, value)).length;
  const setPasted = (changed: Pasted) => edit({ pasted: changed });
  const add = () => {
    setFocused(variables.length);
    addVariables([{ key: "", value: "" }]);
  };
  return (
    <fieldset class="variables field">
      <legend class="label">Variables</legend>
      <span class="hint">
        The agent’s environment. Names and values that look like secrets are masked and go to the secret store, which
        never shows them again.
      </span>
      {variables.map((variable, i) => (
        <VariableRow
          key={variable.row}
          variable={variable}
          place={i + 1}
          wrong={wrong.get(variable.row) ?? []}
          autofocus={i === focused}
        />
      ))}
      <Wrong sentences={wrong.get("all") ?? []} />
      <div class="row">
        <Button icon="plus" onClick={add}>
          Add a variable
        </Button>
        <Button icon="copy" expanded={pasted.shown} onClick={() => setPasted({ ...pasted, shown: !pasted.shown })}>
          Paste a .env file
        </Button>
        {secrets === 0 ? null : (
          <span class="small quiet row">
            <Icon name="lock" />
            {secrets === 1 ? "1 secret" : `${secrets} secrets`}
          </span>
        )}
      </div>
      {pasted.shown ? (
        <EnvPaste pasted={pasted} onChange={setPasted} onAdd={addVariables} />
      ) : null}
    </fieldset>
  );
}

function VariableRow(props: { variable: Variable; place: number; wrong: string[]; autofocus: boolean }) {
  const { variable, place, wrong, autofocus } = props;
  const { row, key, value } = variable;
  const name = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (autofocus) {
      name.current?.focus(); // the attribute works only once in a dialog
    }
  }, []);
  const named = key === "" ? `variable ${place}` : key;
  const secret = isSecret(key, value);
  const invalid = wrong.length > 0 ? { "aria-invalid": "true" as const, "aria-describedby": `wrong-${row}` } : {};
  const paste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData("text") ?? "";
    const { entries, rest } = parseEnv(text);
    if (key === "" && looksLikeEnv(text) && entries.length > 0) {
      event.preventDefault();
      removeVariable(row);
      addVariables(entries);
      edit({ pasted: keepRest(draft.value.pasted, rest) });
    }
  };
  return (
    <div class="variable" role="group" aria-label={named}>
      <input
        ref={name}
        class="input mono"
        value={key}
        aria-label={`Name of ${named}`}
        placeholder="NAME"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        onInput={(event) => changeVariable(row, { key: event.currentTarget.value.trim() })}
        onPaste={paste}
        {...invalid}
      />
      <ValueInput
        value={value}
        named={named}
        secret={secret}
        onInput={(typed) => changeVariable(row, { value: typed })}
      />
      <Button kind="plain" icon="trash" iconOnly onClick={() => removeVariable(row)}>
        {`Remove ${named}`}
      </Button>
      <Wrong sentences={wrong} id={`wrong-${row}`} />
    </div>
  );
}
