import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Icon, type IconName } from "./icons";

export interface ButtonProps {
  children: ComponentChildren;
  onClick?: (event: MouseEvent) => void;
  kind?: "primary" | "danger" | "plain" | "normal";
  type?: "button" | "submit";
  icon?: IconName;
  /** Shows that the action is under way. A second click does nothing. */
  busy?: boolean;
  /** Why the action is not possible. The button stays reachable, so that everybody finds the reason. */
  unavailable?: string | undefined;
  /** Hides the words, which stay the button's name. */
  iconOnly?: boolean;
  pressed?: boolean;
  expanded?: boolean;
  autofocus?: boolean;
}

export function Button(props: ButtonProps) {
  const { children, kind = "normal", type = "button", icon, busy = false, unavailable, iconOnly = false } = props;
  const reason = useId();
  const off = busy || Boolean(unavailable);
  const act = (event: MouseEvent) => {
    if (off) {
      event.preventDefault();
      return;
    }
    props.onClick?.(event);
  };
  return (
    <>
      <button
        type={type}
        class={["button", kind, iconOnly ? "icon-only" : ""].join(" ").trim()}
        onClick={act}
        aria-disabled={off ? "true" : undefined}
        aria-busy={busy ? "true" : undefined}
        aria-describedby={unavailable ? reason : undefined}
        aria-pressed={props.pressed}
        aria-expanded={props.expanded}
        autofocus={props.autofocus}
        title={unavailable ?? (iconOnly && typeof children === "string" ? children : undefined)}
      >
        {busy ? <Icon name="busy" turning /> : icon ? <Icon name={icon} /> : null}
        {iconOnly ? <span class="visually-hidden">{children}</span> : children}
      </button>
      {unavailable ? (
        <span id={reason} class="visually-hidden">
          {unavailable}
        </span>
      ) : null}
    </>
  );
}

/** A link that looks like a button. */
export function LinkButton(props: {
  href: string;
  children: ComponentChildren;
  kind?: "primary" | "normal";
  icon?: IconName;
  /** Opens another site in another tab. */
  external?: boolean;
}) {
  const { href, children, kind = "normal", icon, external = false } = props;
  return (
    <a class={`button ${kind}`} href={href} {...(external ? { target: "_blank", rel: "noreferrer" } : {})}>
      {icon ? <Icon name={icon} /> : null}
      {children}
      {external ? <span class="visually-hidden"> (opens in another tab)</span> : null}
    </a>
  );
}
