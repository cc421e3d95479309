import type { Agent } from "@agents.example/client/schema";
import { useEffect, useRef } from "preact/hooks";
import { announce } from "../ui/announce";
import { statusOf, statusText } from "../ui/status";
import type { RosterState } from "./roster";

/** More changes than this are counted, because a long list that is read out is hard to follow. */
const most = 3;

/** Says to assistive technology which agents have another status. */
export function useStatusAnnouncements({ data, complete }: RosterState): void {
  const last = useRef<Map<string, Agent> | undefined>(undefined);
  useEffect(() => {
    if (data === undefined || !complete) {
      return;
    }
    const now = new Map(data.map((agent) => [agent.id, agent]));
    const changes = last.current === undefined ? [] : changesBetween(last.current, now);
    last.current = now;
    if (changes.length > most) {
      announce(`${changes.length} agents changed their status.`);
    } else if (changes.length > 0) {
      announce(changes.join(" "));
    }
  }, [data, complete]);
}

function changesBetween(before: Map<string, Agent>, now: Map<string, Agent>): string[] {
  const changes: string[] = [];
  for (const [id, agent] of now) {
    const known = before.get(id);
    if (known !== undefined && statusOf(known) !== statusOf(agent)) {
      changes.push(`${agent.name}: ${statusText(statusOf(agent))}.`);
    }
  }
  for (const [id, agent] of before) {
    if (!now.has(id)) {
      changes.push(`${agent.name} is deleted.`);
    }
  }
  return changes;
}
