const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const dollars = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", maximumFractionDigits: 0 });

export const formatNumber = (value: number): string => number.format(value);

/** An uptime in percent. It is rounded down, so that 100% means no outage. */
export const formatUptime = (value: number): string => `${number.format(Math.floor(value * 100) / 100)}%`;

export const formatPrice = (value: number | null): string =>
  value === null ? "by contract" : value === 0 ? "free" : `${dollars.format(value)} a month`;

export const formatCores = (value: number): string => `${number.format(value)} ${value === 1 ? "core" : "cores"}`;

const units = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** Bytes in binary units, such as "1.5 GiB". */
export function formatBytes(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${number.format(Number(value.toPrecision(3)))} ${units[unit]}`;
}

/** A figure that may be missing: a missing one is not zero. */
export const orMissing = (value: number | null, format: (value: number) => string): string =>
  value === null ? "no data" : format(value);

const planNames: Record<string, string> = {
  hobby: "Hobby",
  starter: "Starter",
  startup: "Startup",
  pro: "Pro",
  business: "Business",
  enterprise: "Enterprise",
};

export const planName = (id: string): string => planNames[id] ?? id;

/** The plans, smallest first. */
export const planOrder = Object.keys(planNames);

/** Names as a phrase, such as "A, B and C". */
export const listText = (names: string[]): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${number.format(count)} ${count === 1 ? one : many}`;
