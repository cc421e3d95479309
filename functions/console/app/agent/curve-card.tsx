import type { Agent, MetricsPoint } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { lazy } from "../ui/lazy";
import { type Curve, formatMoment, sentence, summarize } from "./curves";

// The library of the charts is larger than the page, and nothing else needs it.
const Chart = lazy(() => import("./chart").then((module) => module.Chart));

/** One curve with its name, the value under the crosshair, and a sentence that says the same. */
export function CurveCard(props: {
  curve: Curve;
  agent: Agent;
  points: MetricsPoint[];
  times: number[];
  values: (number | null)[];
  from: number;
  to: number;
  /** Whether the axis reaches the plan's limit. */
  toLimit: boolean;
}) {
  const { curve, agent, points, times, values, toLimit } = props;
  const [index, setIndex] = useState<number | null>(null);
  const found = summarize(points);
  const limit = curve.limit?.(agent);
  const highest = found?.max ?? 0;
  const text = sentence(curve, points);
  return (
    <figure class="card curve">
      <figcaption class="head">
        <h3>{curve.title}</h3>
        <span class="actions small number" aria-hidden="true">
          {found === undefined ? null : <Readout curve={curve} times={times} values={values} index={index} />}
        </span>
      </figcaption>
      <div class="plot">
        {found === undefined ? (
          <p class="none quiet">No data in this window</p>
        ) : (
          <Chart
            label={`${curve.title}. ${text}`}
            times={times}
            values={values}
            color={curve.color}
            from={props.from}
            to={props.to}
            top={topOf(highest, toLimit ? limit : undefined)}
            limit={limit}
            binary={curve.binary}
            format={curve.format}
            onPoint={setIndex}
          />
        )}
      </div>
      <p class="small quiet sentence">
        {found === undefined ? "" : `${text} `}
        {limit === undefined ? "" : `The plan allows ${curve.format(limit)}.`}
      </p>
    </figure>
  );
}

/** Leaves some room above the highest value. */
const topOf = (highest: number, limit = 0): number => Math.max(highest * 1.15, limit * 1.08) || 1;

function Readout(props: { curve: Curve; times: number[]; values: (number | null)[]; index: number | null }) {
  const { curve, times, values, index } = props;
  const at = index ?? values.findLastIndex((value) => value !== null);
  const value = values[at] ?? null;
  const time = times[at];
  return (
    <>
      <strong>{value === null ? "no data" : curve.format(value)}</strong>
      {time === undefined ? null : <span class="quiet">{formatMoment(time)}</span>}
    </>
  );
}
