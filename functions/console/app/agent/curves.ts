import type { Agent, Metrics, MetricsSeries, MetricsPoint, MetricsWindow } from "@agents.example/client/schema";
import { formatBytes } from "../ui/format";
import { clockTime } from "./moment";

/** One of the curves of an agent's metrics. */
export interface Curve {
  name: keyof MetricsSeries;
  title: string;
  /** What the axis counts, if its values do not say it. */
  unit?: string;
  /** The CSS variable of its color. */
  color: string;
  format: (value: number) => string;
  /** What the agent's plan allows. */
  limit?: (agent: Agent) => number;
  /** Whether the axis counts in powers of two. */
  binary?: boolean;
  /** How the axis writes a value. */
  tick?: (value: number) => string;
}

const rate = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const tick = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

/** Small values keep their digits: 0.004 cores are not 0 cores. */
export const formatShare = (value: number): string => `${rate.format(value)} ${value === 1 ? "core" : "cores"}`;

const formatRate = (value: number): string => `${rate.format(value)}/s`;

export const curves: Curve[] = [
  {
    name: "cpu",
    title: "CPU",
    unit: "cores",
    color: "--curve-cpu",
    format: formatShare,
    tick: tick.format,
    limit: (agent) => agent.config.plan_limits.cpu_cores,
  },
  {
    name: "memory",
    title: "Memory",
    color: "--curve-memory",
    format: formatBytes,
    limit: (agent) => agent.config.plan_limits.memory_bytes,
    binary: true,
  },
  {
    name: "requests",
    title: "Requests",
    unit: "per second",
    color: "--curve-requests",
    format: formatRate,
    tick: tick.format,
  },
  {
    name: "errors",
    title: "Errors (5xx)",
    unit: "per second",
    color: "--curve-errors",
    format: formatRate,
    tick: tick.format,
  },
];

export const windows: Record<MetricsWindow, { name: string; seconds: number; step: number }> = {
  "1h": { name: "1 hour", seconds: 3_600, step: 60 },
  "6h": { name: "6 hours", seconds: 6 * 3_600, step: 300 },
  "24h": { name: "24 hours", seconds: 24 * 3_600, step: 300 },
};

/** The smallest window that reaches back to a time, in milliseconds since 1970; the largest one if none does. */
export const windowSince = (time: number, now: number): MetricsWindow =>
  (Object.keys(windows) as MetricsWindow[]).find((name) => now - time <= windows[name].seconds * 1_000) ?? "24h";

/** The curves over one list of times, so that a time has the same place in each of them. */
export interface Aligned {
  /** In Unix seconds, ascending. */
  times: number[];
  /** A value for each time; null where a curve has none. */
  values: Record<keyof MetricsSeries, (number | null)[]>;
}

/** Puts the curves over common times. A gap gets a time without values, so that no line crosses it. */
export function align(series: MetricsSeries, step: number): Aligned {
  const times = withGaps(timesOf(series), step);
  const column = (points: MetricsPoint[]) => {
    const known = new Map(points.map((point) => [point.t, point.v]));
    return times.map((time) => known.get(time) ?? null);
  };
  return {
    times,
    values: {
      cpu: column(series.cpu),
      memory: column(series.memory),
      requests: column(series.requests),
      errors: column(series.errors),
    },
  };
}

function timesOf(series: MetricsSeries): number[] {
  const all = new Set<number>();
  for (const curve of curves) {
    for (const point of series[curve.name]) {
      all.add(point.t);
    }
  }
  return [...all].sort((a, b) => a - b);
}

function withGaps(times: number[], step: number): number[] {
  return times.flatMap((time, i) => {
    const next = times[i + 1];
    return next !== undefined && next - time > 1.5 * step ? [time, time + step] : [time];
  });
}

export interface Summary {
  min: number;
  mean: number;
  max: number;
  last: MetricsPoint;
}

/** What a curve shows, in numbers. */
export function summarize(points: MetricsPoint[]): Summary | undefined {
  const last = points.at(-1);
  if (last === undefined) {
    return undefined;
  }
  const values = points.map((point) => point.v);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { min: Math.min(...values), mean, max: Math.max(...values), last };
}

/** A time of a curve, in Unix seconds, in the viewer's zone. */
export const formatMoment = (seconds: number): string => clockTime(new Date(seconds * 1_000));

/** A curve in a sentence, for those who do not see it. */
export function sentence(curve: Curve, points: MetricsPoint[]): string {
  const found = summarize(points);
  if (found === undefined) {
    return "No data in this window.";
  }
  const { min, mean, max, last } = found;
  const { format } = curve;
  return (
    `Lowest ${format(min)}, average ${format(mean)}, highest ${format(max)}, ` +
    `last ${format(last.v)} at ${formatMoment(last.t)}.`
  );
}

/** Whether the metrics have a value to draw. */
export const hasPoints = (metrics: Metrics): boolean => curves.some((curve) => metrics.series[curve.name].length > 0);
