import { useState } from "preact/hooks";
import { Button } from "./button";
import { announce } from "./announce";

/** Copies a text to the clipboard. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState<"" | "done" | "failed">("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("done");
      announce(`The ${what} is copied.`);
    } catch {
      setCopied("failed");
      announce(`The browser did not allow copying the ${what}.`);
    }
    setTimeout(() => setCopied(""), 2_000);
  };
  return (
    <Button
      kind="plain"
      iconOnly
      icon={copied === "done" ? "check" : copied === "failed" ? "error" : "copy"}
      onClick={() => void copy()}
    >
      {`Copy the ${what}`}
    </Button>
  );
}

/** A value that is shown only as long as a person needs it. */
export function SecretValue({ value, what }: { value: string; what: string }) {
  const [visible, setVisible] = useState(false);
  return (
    <div class="secret">
      <code>{visible ? value : "•".repeat(24)}</code>
      <Button kind="plain" iconOnly icon={visible ? "hide" : "eye"} onClick={() => setVisible(!visible)}>
        {visible ? `Hide the ${what}` : `Show the ${what}`}
      </Button>
      <CopyButton text={value} what={what} />
    </div>
  );
}
