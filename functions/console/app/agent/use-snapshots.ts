import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { useEffect, useRef } from "preact/hooks";
import { type Live, useLive } from "../api/live";
import { announce } from "../ui/announce";
import { agentPath } from "./paths";
import { isMoving } from "./snapshot-text";

export const snapshotsPath = (agent: string): string => `${agentPath(agent)}/snapshots`;

export const snapshotPath = ({ agent_id, id }: AgentSnapshot): string =>
  `${snapshotsPath(agent_id)}/${encodeURIComponent(id)}`;

const every = 10_000;
/** With what else the page reads of the agent, this stays below the number of reads that the service allows. */
const quick = 1_500;

/** Follows the agent's snapshots, the newest first. They are read again whenever the agent has changed. */
export function useSnapshots(agent: Agent): Live<AgentSnapshot[]> {
  const live = useLive<AgentSnapshot[]>(snapshotsPath(agent.id), {
    every,
    quick,
    changing: (snapshots) => snapshots.some(isMoving),
  });
  useEffect(live.refresh, [agent.updated_at]);
  useAnnouncements(live.data);
  return live;
}

/** Says when a snapshot becomes ready, and when it fails. */
function useAnnouncements(snapshots: AgentSnapshot[] | undefined): void {
  const known = useRef(new Map<string, string>());
  useEffect(() => {
    for (const { id, name, status } of snapshots ?? []) {
      if (known.current.get(id) === "pending" && status !== "pending") {
        announce(`The snapshot “${name}” ${status === "ready" ? "is ready" : `is now ${status}`}.`);
      }
    }
    known.current = new Map((snapshots ?? []).map(({ id, status }) => [id, status]));
  }, [snapshots]);
}
