import type { AgentStage } from "@agents.example/client/schema";

/** The time of the stages, in milliseconds since 1970. */
export interface Span {
  begin: number | undefined;
  /** Undefined while a stage is under way. */
  end: number | undefined;
  /** Whether all stages are done. */
  done: boolean;
  /** Whether some of the stages ran again for a later pod, so that the time of all stages says nothing. */
  replaced: boolean;
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
    replaced: stages.some((stage, position) => isRepeated(stage, stages.slice(position + 1))),
  };
}

/** Each of these stages begins when all stages before it have ended. The others overlap. */
const barriers = ["runtime", "route", "ready"];

/**
 * Whether a stage ran again after provisioning. A replacement of the pod of a running agent runs only some stages
 * again, so a stage ends after the beginning of one that waited for it.
 */
function isRepeated(stage: AgentStage, later: AgentStage[]): boolean {
  const end = timeOf(stage.finished_at);
  return later.some(({ name, started_at }) => {
    const begin = timeOf(started_at);
    return barriers.includes(name) && isDone(stage) && end !== undefined && begin !== undefined && end > begin;
  });
}
