import type { Agent } from "@agents.example/client/schema";

/** Where an agent is in the service's list: newest first, then by id from the last to the first. */
export interface Place {
  /** The time of creation with nine digits of a second, so that texts sort as times do. */
  created: string;
  id: string;
}

export function placeOf(agent: Pick<Agent, "created_at" | "id">): Place {
  const [, whole = agent.created_at, fraction = ""] = /^(.*?)(?:\.(\d+))?Z$/.exec(agent.created_at) ?? [];
  return { created: `${whole}.${fraction.padEnd(9, "0")}`, id: agent.id };
}

/** Negative if a is before b in the list. */
export function comparePlaces(a: Place, b: Place): number {
  return compareTexts(b.created, a.created) || compareTexts(b.id, a.id);
}

const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
