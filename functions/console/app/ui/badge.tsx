import { Icon, type IconName } from "./icons";
import type { Tone } from "./tone";

/** How a state looks, and what it is called. */
export interface Appearance {
  tone: Tone;
  icon: IconName;
  text: string;
}

/** A state as words with an icon. */
export function Badge({ tone, icon, text }: Appearance) {
  return (
    <span class={`badge tone-${tone}`}>
      <Icon name={icon} turning={icon === "busy"} />
      {text}
    </span>
  );
}
