import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "../ui/button";
import { TextArea } from "../ui/field";
import { plural } from "../ui/format";
import { type EnvEntry, parseEnv } from "./env";
import { isPasted, keepRest, nothingPasted, type Pasted } from "./pasted";
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
  const [added, setAdded] = useState(0);
  useFocus(element);
  // Rows that are added push the box down, and what is wrong with the rest must stay in view.
  useEffect(() => element.current?.scrollIntoView({ block: "nearest" }), [refused && pasted, added]);
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
        wrong={refused ? [entries.length === 0 ? repair : addFirst, ...wrong] : wrong}
        hint={
          text === ""
            ? "One NAME=value a line. Comments, export and quotes are understood; references such as ${OTHER} are " +
              "not replaced."
            : `${plural(entries.length, "variable")} found, ${plural(secrets, "secret")} among them.`
        }
      />
      {isPasted(pasted) ? (
        <div class="row">
          {entries.length === 0 ? null : (
            <Button
              onClick={() => {
                onAdd(entries);
                onChange(keepRest(nothingPasted, rest));
                setAdded(added + 1);
                element.current?.querySelector("textarea")?.focus(); // this button goes
              }}
            >
              {problems.length === 0 ? "Add these variables" : "Add the lines that are right"}
            </Button>
          )}
          <Button onClick={() => onChange(nothingPasted)}>Discard the text</Button>
        </div>
      ) : null}
    </div>
  );
}

const addFirst = "Add the pasted variables first, or discard the text.";
const repair = "Correct these lines, or discard the text.";

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
