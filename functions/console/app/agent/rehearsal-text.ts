import type { OrganizationAmounts, RehearsalLostHost, RehearsalWould } from "@agents.example/client/schema";
import { formatBytes, formatNumber, formatPrice, plural } from "../ui/format";
import { formatDuration } from "../ui/time";

/** Whether the pod is replaced. */
export const restartText = ({ restarts }: RehearsalWould): string =>
  restarts ? "Yes, the pod is replaced." : "No pod is replaced.";

/** How many hosts a text names at most. */
const someHosts = 10;

/** The hosts that the agent used in the last days and would no longer reach. */
export function lostHosts(hosts: RehearsalLostHost[]): string {
  const names = hosts.slice(0, someHosts).map(({ host, used }) => `${host} (used ${plural(used, "time")} in 7 days)`);
  return [...names, ...(hosts.length > someHosts ? [`${hosts.length - someHosts} more`] : [])].join(", ");
}

/** For how long the agent does not answer. The service gives no figure if it is unknown, or if the pod is removed. */
export function downtimeText({ downtime_seconds_estimate: seconds, status }: RehearsalWould): string {
  if (seconds !== null) {
    return seconds === 0 ? "None" : `About ${formatDuration(seconds * 1_000)}, as at the last start`;
  }
  return ["paused", "stopped"].includes(status)
    ? "Until the agent runs again"
    : status === "deleting"
      ? "For good"
      : "Not known yet";
}

type Format = [name: string, amount: (amounts: OrganizationAmounts) => number, format: (value: number) => string];

const formats: Format[] = [
  ["agents", ({ agents }) => agents, formatNumber],
  ["cores", ({ cpu_cores }) => cpu_cores, formatNumber],
  ["memory", ({ memory_bytes }) => memory_bytes, formatBytes],
  ["storage", ({ storage_bytes }) => storage_bytes, formatBytes],
];

/** What changes in what the organization takes up, such as "cores 1.5 → 1". */
export function usageText({ usage_before: before, usage_after: after }: RehearsalWould): string {
  const changes = formats
    .filter(([, amount]) => amount(before) !== amount(after))
    .map(([name, amount, format]) => `${name} ${format(amount(before))} → ${format(amount(after))}`);
  return changes.length === 0 ? "The same as now" : changes.join(", ");
}

/** Whether neither what the organization takes up nor its price changes. */
export const costsTheSame = (would: RehearsalWould): boolean =>
  !would.monthly_price_change_usd &&
  formats.every(([, amount]) => amount(would.usage_before) === amount(would.usage_after));

/** How the price of the organization changes. */
export function priceText(would: RehearsalWould): string {
  const { monthly_price_before_usd: before, monthly_price_change_usd: change } = would;
  switch (change) {
    case null:
      return "By contract";
    case 0:
      return `The same as now, ${formatPrice(before)}`;
    default:
      return `${formatPrice(Math.abs(change))} ${change > 0 ? "more" : "less"}`;
  }
}
