import type { Agent } from "@agents.example/client/schema";
import { formatDuration } from "../ui/time";

/** A time of sleep in words, such as "30 min" or "2 days". */
export function sleepTime(seconds: number): string {
  const days = seconds / 86_400;
  return Number.isInteger(days) ? (days === 1 ? "1 day" : `${days} days`) : formatDuration(seconds * 1_000);
}

/** What wakes an agent, as the end of a sentence. */
export function wakersText({ wake_on }: Agent["sleep"]): string {
  const request = wake_on.includes("request");
  const schedule = wake_on.includes("schedule");
  switch (true) {
    case request && schedule:
      return "A request or a schedule wakes it.";
    case request:
      return "A request wakes it.";
    case schedule:
      return "A schedule wakes it, but no request does.";
    default:
      return "Only an admin wakes it.";
  }
}
