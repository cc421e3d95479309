import type { Agent, Event } from "@agents.example/client/schema";
import { useEffect } from "preact/hooks";
import { type Live, useLive } from "../api/live";

const every = 10_000;
const quick = 1_500;

/** How many events are read: as many as one page of them may have. */
export const newest = 100;

const none: Event[] = [];

/** Since when no event is missing: the service does not tell whether there are older ones than those of a full page. */
export function completeSince(events: Event[]): number {
  const [oldest] = events;
  return oldest === undefined || events.length < newest || oldest.type === "agent.created"
    ? -Infinity
    : Date.parse(oldest.created_at);
}

/** The newest events of the agent, the oldest first. They are read again whenever the agent has changed. */
export function useEvents(agent: Agent): { events: Event[]; live: Live<Event[]> } {
  const live = useLive<Event[]>(`/api/v1/events?agent_id=${agent.id}&limit=${newest}`, { every, quick });
  useEffect(live.refresh, [agent.updated_at, agent.status]);
  return { events: live.data ?? none, live };
}
