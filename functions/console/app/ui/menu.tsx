import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button } from "./button";
import type { IconName } from "./icons";

/** A button that opens a list of actions. Escape and a click elsewhere close it. */
export function Menu(props: {
  label: ComponentChildren;
  icon?: IconName;
  iconOnly?: boolean;
  children: (close: () => void) => ComponentChildren;
}) {
  const { label, icon, iconOnly = false, children } = props;
  const [open, setOpen] = useState(false);
  const element = useRef<HTMLDivElement>(null);
  // Not an effect after the paint, or a key that is pressed immediately is lost.
  useLayoutEffect(() => {
    if (!open) {
      return;
    }
    const onPointer = (event: Event) => {
      if (!element.current?.contains(event.target as Node)) {
        setOpen(false);
      }
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") {
        setOpen(false);
        element.current?.querySelector("button")?.focus();
      }
    };
    document.addEventListener("pointerdown", onPointer);
    document.addEventListener("focusin", onPointer);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("pointerdown", onPointer);
      document.removeEventListener("focusin", onPointer);
      document.removeEventListener("keydown", onKey);
    };
  }, [open]);
  const close = () => {
    setOpen(false);
    element.current?.querySelector("button")?.focus(); // or focus is lost with the item
  };
  return (
    <div class="menu" ref={element}>
      <Button
        kind={iconOnly ? "plain" : "normal"}
        iconOnly={iconOnly}
        expanded={open}
        onClick={() => setOpen(!open)}
        {...(icon === undefined ? {} : { icon })}
      >
        {label}
      </Button>
      {open ? <div class="items">{children(close)}</div> : null}
    </div>
  );
}
