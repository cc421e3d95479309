import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { laterStyle } from "../ui/later-style";

const mac = /Mac|iPhone|iPad/.test(navigator.platform);

/** The keys that open the palette. */
export const paletteKeys = mac ? "⌘ K" : "Ctrl K";

/** The button and the keys that open the palette, whose code is loaded then. */
export function PaletteOpener() {
  const [Palette, setPalette] = useState<ComponentType<{ onClose: () => void }>>();
  const open = () => {
    Promise.all([import("./palette"), laterStyle()]).then(
      ([module]) => setPalette(() => module.Palette),
      () => toast("The commands could not be loaded. Load the page again.", "bad"),
    );
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const wanted = event.key.toLowerCase() === "k" && (mac ? event.metaKey : event.ctrlKey);
      if (wanted && !event.altKey && !event.shiftKey && document.querySelector("dialog[open]") === null) {
        event.preventDefault();
        open();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <Button icon="search" onClick={open}>
        <span class="wide-only">
          Search <kbd>{paletteKeys}</kbd>
        </span>
        <span class="visually-hidden narrow-only">Search</span>
      </Button>
      {Palette === undefined ? null : <Palette onClose={() => setPalette(undefined)} />}
    </>
  );
}
