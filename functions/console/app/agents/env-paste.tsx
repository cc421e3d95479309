import { useEffect, useRef } from "preact/hooks";
import { Button } from "../ui/button";
import { TextArea } from "../ui/field";
import { plural } from "../ui/format";
import { type EnvEntry, parseEnv } from "./env";
import { keepRest, nothingPasted, type Pasted } from "./pasted";
import { isSecret } from "./secretlike";

/** A field for a .env file. Its lines become variables, so that nothing is added that was not seen. */
export function EnvPaste(props: {
  pasted: Pasted;
  onChange: (pasted: Pasted) => void;
  onAdd: (entries: EnvEntry[]) => void;
}) {
  const { pasted, onChange, onAdd } = props;
  const { text, refused } = pasted;
  const { entries, problems, rest } = parseEnv(text);
  const element = useRef<HTMLDivElement>(null);
  useFocus(element);
  const secrets = entries.filter(({ key, value }) => isSecret(key, value)).length;
  const wrong = problems.map(({ line, message }) => `Line ${line}: ${message}`);
  return (
    <div class="env-paste stack-tight" ref={element}>
      <TextArea
        label="Content of the .env file"
        mono
        rows={6}
        value={text}
        onInput={(typed) => onChange({ text: typed, shown: true, refused: false })}
        placeholder={"LOG_LEVEL=info\nOPENAI_API_KEY=…"}
        wrong={refused ? [addFirst, ...wrong] : wrong}
        hint={
          text === ""
            ? "One NAME=value a line. Comments, export and quotes are understood; references such as ${OTHER} are " +
              "not replaced."
            : `${plural(entries.length, "variable")} found, ${plural(secrets, "secret")} among them.`
        }
      />
      <div class="row">
        <Button
          unavailable={entries.length === 0 ? "No variable was found in the text." : undefined}
          onClick={() => {
            onAdd(entries);
            onChange(keepRest(nothingPasted, rest));
          }}
        >
          {problems.length === 0 ? "Add these variables" : "Add the lines that are right"}
        </Button>
      </div>
    </div>
  );
}

const addFirst = "Add the pasted variables first, or clear the box.";

/** Moves focus into the box when it opens, and back to its button when it closes. */
function useFocus(element: { current: HTMLElement | null }): void {
  useEffect(() => {
    const box = element.current;
    const opener = document.activeElement;
    box?.querySelector("textarea")?.focus(); // autofocus works only once in a dialog
    return () => {
      if (box?.contains(document.activeElement) && opener instanceof HTMLElement) {
        opener.focus();
      }
    };
  }, []);
}
