import type { Agent, MetricsPoint } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { lazy } from "../ui/lazy";
import { type Curve, formatMoment, sentence, summarize } from "./curves";
import { axisWidth, rightPadding } from "./chart-space";
import { isoOf } from "./marker-list";
import type { Marker } from "./markers";
import { tabHref } from "./paths";

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
  markers: Marker[];
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
        {curve.unit === undefined ? null : <span class="small quiet">{curve.unit}</span>}
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
            tick={curve.tick ?? curve.format}
            onPoint={setIndex}
          />
        )}
        {found === undefined ? null : (
          <Markers agentID={agent.id} markers={props.markers} from={props.from} to={props.to} />
        )}
      </div>
      <p class="small quiet sentence">
        {found === undefined ? "" : `${text} `}
        {limit === undefined ? "" : `The plan allows ${curve.format(limit)}.`}
      </p>
    </figure>
  );
}

const space = { "--axis": `${axisWidth}px`, "--right": `${rightPadding}px` };

/** Lines where something happened, for the pointer. The list of the markers has their links for everyone. */
function Markers(props: { agentID: string; markers: Marker[]; from: number; to: number }) {
  const { agentID, markers, from, to } = props;
  return (
    <div class="marks" style={space} aria-hidden="true">
      {markers.map(({ at, tone, texts }) => (
        <a
          key={at}
          class={`tone-${tone}`}
          href={tabHref(agentID, "history", { at: isoOf(at) })}
          tabIndex={-1}
          title={`${formatMoment(at)}: ${texts.join(", ")}`}
          style={{ "--at": `${((at - from) / (to - from)) * 100}%` }}
        />
      ))}
    </div>
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
