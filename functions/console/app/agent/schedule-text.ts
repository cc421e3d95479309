import type { Agent, AgentCall } from "@agents.example/client/schema";
import type { Appearance } from "../ui/badge";
import { isAsleep } from "../ui/status";
import { formatDuration } from "../ui/time";

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const and = new Intl.ListFormat("en", { type: "conjunction" });

/** The number that a field of an expression is, if it is only that. */
function numberOf(field: string, least: number, most: number): number | undefined {
  const value = /^\d{1,2}$/.test(field) ? Number(field) : Number.NaN;
  return value >= least && value <= most ? value : undefined;
}

/** The step of a field such as star-slash-15, if it divides the range: otherwise the last step is shorter. */
function stepOf(field: string, range: number): number | undefined {
  const step = field === "*" ? 1 : Number(/^\*\/(\d{1,2})$/.exec(field)?.[1]);
  return range % step === 0 ? step : undefined;
}

const digits = (value: number): string => String(value).padStart(2, "0");

/** When on a day, if it is one of the common forms. */
function timesOf(minute: string, hour: string): string | undefined {
  const at = numberOf(minute, 0, 59);
  const step = at === undefined ? stepOf(minute, 60) : stepOf(hour, 24);
  if (at === undefined) {
    return step === undefined || hour !== "*" ? undefined : `every ${step === 1 ? "minute" : `${step} minutes`}`;
  }
  if (step !== undefined) {
    return `every ${step === 1 ? "hour" : `${step} hours`} at minute ${at}`;
  }
  const hours = hour.split(",").map((one) => numberOf(one, 0, 23));
  return hours.includes(undefined)
    ? undefined
    : `at ${and.format(hours.map((one) => `${digits(one ?? 0)}:${digits(at)}`))}`;
}

function weekdayOf(field: string): string | undefined {
  const named = weekdays.find((name) => name.slice(0, 3).toUpperCase() === field.toUpperCase());
  return named ?? weekdays[numberOf(field, 0, 6) ?? -1];
}

/** On which days, if it is one of the common forms. */
function daysOf(day: string, weekday: string): string | undefined {
  if (weekday === "*") {
    const date = numberOf(day, 1, 31);
    const rare = date !== undefined && date > 28 ? " that has one" : "";
    return day === "*" ? "" : date === undefined ? undefined : ` on day ${date} of each month${rare}`;
  }
  const separator = weekday.includes("-") ? "-" : ",";
  const names = weekday.split(separator).map(weekdayOf);
  if (day !== "*" || names.includes(undefined) || (separator === "-" && names.length !== 2)) {
    return undefined;
  }
  return `, ${separator === "-" ? names.join(" to ") : and.format(names.map(String))}`;
}

/** What a cron expression means, for the common ones, such as "At 09:30, Monday to Friday". Empty for others. */
export function cronText(cron: string): string {
  const [minute = "", hour = "", day = "", month, weekday = "", ...more] = cron.trim().split(/\s+/);
  const times = timesOf(minute, hour);
  const days = daysOf(day, weekday);
  if (times === undefined || days === undefined || month !== "*" || more.length > 0) {
    return "";
  }
  const text = `${times}${days === "" && times.startsWith("at") ? " every day" : days}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const outcomes: Record<string, Appearance> = {
  running: { tone: "busy", icon: "busy", text: "Under way" },
  failed: { tone: "bad", icon: "error", text: "No answer" },
  timeout: { tone: "bad", icon: "error", text: "No answer in time" },
  interrupted: { tone: "warn", icon: "error", text: "Interrupted" },
};

/** How a call ended. An answer may say that the agent failed. */
export function callState({ outcome, status }: Pick<AgentCall, "outcome" | "status">): Appearance {
  if (outcome !== "answered") {
    return outcomes[outcome] ?? { tone: "idle", icon: "info", text: outcome };
  }
  const text = status === null ? "Answered" : `Answered ${status}`;
  return status === null || status < 300 ? { tone: "good", icon: "check", text } : { tone: "bad", icon: "error", text };
}

/** How long a call took, or why that is not known. */
export function callDuration({ outcome, duration_ms: duration }: Pick<AgentCall, "outcome" | "duration_ms">): string {
  if (outcome === "interrupted") {
    return "its pod ended before the answer; it is not called again";
  }
  return duration === null ? "" : `after ${formatDuration(duration)}`;
}

/** Whether schedules call the agent as it is now, and what happens while it sleeps. */
export function callText(agent: Agent): { called: boolean; text: string } {
  const wakes = agent.sleep.wake_on.includes("schedule");
  const asleep = isAsleep(agent);
  if (["running", "provisioning", "pending"].includes(agent.status) || asleep) {
    const sleeps = asleep || agent.sleep.after_seconds !== null;
    return {
      called: wakes || !asleep,
      text: !sleeps
        ? ""
        : wakes
          ? "If it sleeps, it is woken first."
          : "It is not called while it sleeps: its setting of sleep does not let schedules wake it.",
    };
  }
  const why: Record<string, string> = {
    paused: "It is not called now, because it is paused. Schedules wake only an agent that fell asleep by itself.",
    stopped: "It is not called now, because it is stopped. Schedules wake only an agent that fell asleep by itself.",
    error: "It is not called now, because it failed.",
    deleting: "It is not called any more, because it is being deleted.",
  };
  return { called: false, text: why[agent.status] ?? "It is not called now." };
}
