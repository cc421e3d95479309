import type { Agent, AgentSchedule, AgentScheduleSpec } from "@agents.example/client/schema";
import { CallError } from "../api/errors";
import { overtaken } from "../api/known";
import { changeAgent } from "./change";

/** What an admin sets of a schedule. */
export type ScheduleTerms = Required<AgentScheduleSpec> & { enabled: boolean };

export const termsOf = ({ id, cron, timezone, path, body, missed, enabled }: AgentSchedule): ScheduleTerms => ({
  id,
  cron,
  timezone,
  path,
  body: body ?? "",
  missed,
  enabled,
});

const same = (a: ScheduleTerms | undefined, b: ScheduleTerms | undefined): boolean =>
  JSON.stringify(a) === JSON.stringify(b);

/**
 * Replaces one schedule by another with the same id. Without a former one, it is added, and without a next one, it is
 * removed. The others stay as they are now, and a schedule that is not as the person saw it is not replaced. If the
 * answer to an earlier call was lost, the change may be made already.
 */
export async function changeSchedule(
  agent: string,
  seen: ScheduleTerms | undefined,
  next: ScheduleTerms | undefined,
): Promise<Agent> {
  const id = seen?.id ?? next?.id;
  let index = 0;
  const bodyOf = ({ schedules }: Agent): object | undefined => {
    const all = schedules.map(termsOf);
    const now = all.find((one) => one.id === id);
    if (same(now, next)) {
      return undefined;
    }
    if (seen !== undefined && !same(now, seen)) {
      const became = now === undefined ? "removed" : "changed";
      throw overtaken(`The schedule was ${became} by someone else while you looked at it.`);
    }
    const others = all.filter((one) => seen === undefined || one.id !== id);
    index = others.length;
    return { schedules: next === undefined ? others : [...others, next] };
  };
  try {
    return await changeAgent(agent, bodyOf);
  } catch (error) {
    throw error instanceof CallError ? ofSchedule(error, index) : error;
  }
}

/** The same error with the violations of one schedule as those of a form: body.cron, not body.schedules.3.cron. */
const ofSchedule = (error: CallError, index: number): CallError =>
  error.with(
    error.message,
    error.violations.map((violation) =>
      violation.loc[1] === "schedules" && String(violation.loc[2]) === String(index)
        ? { ...violation, loc: ["body", ...violation.loc.slice(3)] }
        : violation,
    ),
  );
