import type { IconName } from "./icons";

/** How good or bad something is. A tone always comes with an icon and words, never as a color alone. */
export type Tone = "good" | "busy" | "warn" | "bad" | "idle";

export const toneIcons: Record<Tone, IconName> = {
  good: "check",
  busy: "info",
  warn: "error",
  bad: "error",
  idle: "info",
};
