import type uPlot from "uplot";
import { axisWidth, rightPadding } from "./chart-space";

/** What a chart shows in addition to its values. */
export interface Drawing {
  /** The CSS variable of the curve's color. */
  color: string;
  /** The period, in Unix seconds. */
  from: number;
  to: number;
  /** The highest value on the axis. */
  top: number;
  /** A line at what the plan allows. */
  limit?: number | undefined;
  binary?: boolean | undefined;
  /** How the axis writes a value. */
  tick: (value: number) => string;
  onPoint: (index: number | null) => void;
}

/** All charts with this key move their crosshairs together. */
const syncKey = "agent-metrics";

const axisFont = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const powersOfTwo = Array.from({ length: 50 }, (_, i) => 2 ** i);

/** The options of a chart. It reads its drawing and the page's colors whenever it draws. */
export function chartOptions(
  element: HTMLElement,
  drawing: () => Drawing,
  size: { width: number; height: number },
): uPlot.Options {
  const color = (name: string) => resolve(element, name);
  const grid: uPlot.Axis.Grid = { stroke: () => color("--line"), width: 1 };
  const axis: uPlot.Axis = { stroke: () => color("--text-quiet"), font: axisFont, grid, ticks: { show: false } };
  const curve = () => color(drawing().color);
  return {
    ...size,
    padding: [14, rightPadding, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      sync: { key: syncKey },
      points: { size: 8, width: 2, fill: curve, stroke: () => color("--surface") },
    },
    scales: {
      x: { time: true, range: () => [drawing().from, drawing().to] },
      y: { range: () => [0, drawing().top] },
    },
    axes: [
      { ...axis, size: 30, space: 64, values: (_, times) => times.map(formatClock) },
      {
        ...axis,
        size: axisWidth,
        space: 34,
        ...(drawing().binary ? { incrs: powersOfTwo } : {}),
        values: (_, values) => values.map((value) => (value === 0 ? "0" : drawing().tick(value))),
      },
    ],
    series: [
      {},
      {
        stroke: curve,
        fill: () => translucent(curve()),
        width: 2,
        spanGaps: false,
        points: { show: true, size: 4, stroke: curve, fill: curve, filter: lonePoints },
      },
    ],
    hooks: {
      setCursor: [(plot) => drawing().onPoint(plot.cursor.idx ?? null)],
      draw: [(plot) => drawLimit(plot, drawing().limit, color("--text-quiet"))],
    },
  };
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });

const dated = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** A time of the axis: the day stands at its beginning. */
function formatClock(seconds: number): string {
  const time = new Date(seconds * 1_000);
  return (time.getHours() === 0 && time.getMinutes() === 0 ? dated : clock).format(time);
}

/** Values between two gaps: a line would not show them. */
function lonePoints(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const missing = (i: number) => (values[i] ?? null) === null;
  return [...values.keys()].filter((i) => !missing(i) && missing(i - 1) && missing(i + 1));
}

function drawLimit(plot: uPlot, limit: number | undefined, color: string): void {
  if (limit === undefined || limit > (plot.scales["y"]?.max ?? 0)) {
    return;
  }
  const { ctx, bbox } = plot;
  const y = Math.round(plot.valToPos(limit, "y", true));
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

/** The present color of a CSS variable, also of one that has a value for each theme. */
function resolve(element: HTMLElement, variable: string): string {
  const before = element.style.color;
  element.style.color = `var(${variable})`;
  const { color } = getComputedStyle(element);
  element.style.color = before;
  return color;
}

const translucent = (rgb: string): string => rgb.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");
