// The pages of an agent that show a stretch of time share it: what a person chose on one, the others open with.

import { onSignOut } from "../session/session";
import { Store, useStore } from "../store";

/** From when on, as a duration before now, by agent. An agent whose time was not chosen has none. */
const chosen = new Store<Record<string, string>>({});

onSignOut(() => chosen.set({}));

/** The stretch that was chosen for an agent, such as "1h"; "" if none was, or everything. */
export const useSpan = (agentID: string): string => useStore(chosen)[agentID] ?? "";

/** Remembers a choice. A time of day, which a link may have, is none. */
export function chooseSpan(agentID: string, since: string): void {
  if (since in periods) {
    chosen.set({ ...chosen.value, [agentID]: since });
  }
}

/** The stretches that can be chosen, by when they begin. */
export const periods: Record<string, string> = {
  "": "The beginning",
  "5m": "5 minutes ago",
  "15m": "15 minutes ago",
  "1h": "1 hour ago",
  "6h": "6 hours ago",
  "24h": "24 hours ago",
};

const units: Record<string, number> = { m: 60_000, h: 3_600_000 };

/** A duration such as "15m" in milliseconds; undefined for another text. */
export function millisecondsOf(duration: string): number | undefined {
  const [, count, unit = ""] = /^(\d+)([mh])$/.exec(duration) ?? [];
  const size = units[unit];
  return size === undefined ? undefined : Number(count) * size;
}
