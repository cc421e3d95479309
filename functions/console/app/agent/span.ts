import type { AgentStage } from "../api/types";

/** The time of the stages, in milliseconds since 1970. */
export interface Span {
  begin: number | undefined;
  /** Undefined while a stage is under way. */
  end: number | undefined;
  /** Whether all stages are done. */
  done: boolean;
  /** The stages whose end is that of a later replacement of the pod, so that their duration is unknown. */
  repeated: Set<string>;
}

export const timeOf = (value: string | null): number | undefined => (value === null ? undefined : Date.parse(value));

const isDone = ({ status }: AgentStage): boolean => status === "succeeded" || status === "skipped";

/** From when to when the stages ran. runs says whether the service still works on them. */
export function spanOf(stages: AgentStage[], runs: boolean): Span {
  const begins = stages.map((stage) => timeOf(stage.started_at)).filter((value) => value !== undefined);
  const ends = stages.map((stage) => timeOf(stage.finished_at)).filter((value) => value !== undefined);
  const done = stages.every(isDone);
  return {
    begin: begins.length === 0 ? undefined : Math.min(...begins),
    end: (done || !runs) && ends.length > 0 ? Math.max(...ends) : undefined,
    done,
    repeated: repeatedOf(stages),
  };
}

/** Each of these stages begins when all stages before it have ended. The others overlap. */
const barriers = ["runtime", "route", "ready"];

/**
 * The stages that ended once more after provisioning. A replacement of the pod of a running agent ends stages again
 * without beginning them, so a stage ends after the beginning of one that waited for it.
 */
function repeatedOf(stages: AgentStage[]): Set<string> {
  const repeated = new Set<string>();
  stages.forEach((stage, position) => {
    const next = stages.slice(position + 1).find(({ name }) => barriers.includes(name));
    const end = timeOf(stage.finished_at);
    const begin = timeOf(next?.started_at ?? null);
    if (isDone(stage) && end !== undefined && begin !== undefined && end > begin) {
      repeated.add(stage.name);
    }
  });
  if (repeated.size > 0) {
    repeated.add("ready"); // the new pod became ready, too
  }
  return repeated;
}
