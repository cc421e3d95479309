import type { ImageDay, ImageMaintenanceWindow, ImagePolicy } from "@agents.example/client/schema";

/** The days in the order of a week. */
export const days: ImageDay[] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/** A day as people write it. */
export const dayText = (day: ImageDay): string => `${day.charAt(0).toUpperCase()}${day.slice(1)}`;

/** What a policy means. */
export function policyText(policy: ImagePolicy): string {
  switch (policy) {
    case "window":
      return "By itself, in its maintenance window";
    case "pinned":
      return "Only when you move it";
    default:
      return "By itself, with a release or at its next start";
  }
}

/** When a window is open. */
export function windowText({ days: chosen, start, hours, timezone }: ImageMaintenanceWindow): string {
  const names = days.filter((day) => chosen.includes(day)).map(dayText);
  const on = names.length === days.length ? "Every day" : names.join(", ");
  return `${on} from ${start} for ${hours === 1 ? "an hour" : `${hours} hours`} (${timezone})`;
}
