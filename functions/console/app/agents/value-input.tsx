import { useEffect, useRef, useState } from "preact/hooks";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";

/** The field of a variable's value. A secret one is masked unless a person wants to see what they type. */
export function ValueInput(props: {
  value: string;
  /** The variable in words. */
  named: string;
  secret: boolean;
  onInput: (value: string) => void;
  autofocus?: boolean;
}) {
  const { value, named, secret, onInput, autofocus } = props;
  const [visible, setVisible] = useState(false);
  const lines = value.split("\n").length;
  const masked = secret && !visible;
  const area = useRef<HTMLTextAreaElement>(null);
  const pasted = useRef(false);
  useEffect(() => {
    if (pasted.current) {
      pasted.current = false;
      area.current?.focus();
    }
  }, [lines]);
  const attributes = {
    "aria-label": `Value of ${named}`,
    placeholder: "value",
    autocapitalize: "off" as const,
    spellcheck: false,
    autofocus,
    value,
    onInput: (event: { currentTarget: { value: string } }) => onInput(event.currentTarget.value),
  };
  // A one-line field would drop the line breaks of a pasted key.
  const paste = (event: ClipboardEvent & { currentTarget: HTMLInputElement }) => {
    const text = event.clipboardData?.getData("text").replace(/\r\n?/g, "\n") ?? "";
    if (!text.trimEnd().includes("\n")) {
      return;
    }
    event.preventDefault();
    pasted.current = true;
    const { selectionStart, selectionEnd } = event.currentTarget;
    onInput(value.slice(0, selectionStart ?? 0) + text + value.slice(selectionEnd ?? 0));
  };
  return (
    <span class="value">
      {lines > 1 ? (
        <textarea
          {...attributes}
          ref={area}
          class={masked ? "input mono masked" : "input mono"}
          rows={Math.min(lines, 4)}
          autocomplete="off"
        />
      ) : (
        <input
          {...attributes}
          class="input mono"
          type={(masked ? "password" : "text") as "text"}
          autocomplete={masked ? "new-password" : "off"}
          onPaste={paste}
        />
      )}
      {secret ? (
        <>
          <Badge tone="busy" icon="lock" text="Secret" />
          <Button kind="plain" iconOnly icon={visible ? "hide" : "eye"} onClick={() => setVisible(!visible)}>
            {visible ? `Hide the value of ${named}` : `Show the value of ${named}`}
          </Button>
        </>
      ) : null}
    </span>
  );
}
