import type { Agent, Metrics, MetricsWindow } from "@agents.example/client/schema";
import { useMemo, useRef } from "preact/hooks";
import { serverNow } from "../api/clock";
import { useLive } from "../api/live";
import { navigate, useRoute } from "../router";
import { Button } from "../ui/button";
import { Following, Notice } from "../ui/feedback";
import { Time } from "../ui/time";
import { Awake } from "./awake";
import { CurveCard } from "./curve-card";
import { align, curves, hasPoints, windows, windowSince } from "./curves";
import { useEvents } from "./history-events";
import { MarkerList } from "./marker-list";
import { markersOf } from "./markers";
import { Figures } from "./metrics-figures";
import { ValuesTable } from "./metrics-table";
import { agentPath, tabHref } from "./paths";
import { chooseSpan, millisecondsOf, useSpan } from "./shared-span";

const every = 30_000;
const names = Object.keys(windows) as MetricsWindow[];

type Scale = "limit" | "values";

/** What an agent uses and serves: its figures, and curves over a window. */
export function MetricsTab({ agent }: { agent: Agent }) {
  const { query } = useRoute();
  const lifetime = useMemo(() => windowSince(Date.parse(agent.created_at), serverNow()), [agent.id]);
  const span = useSpan(agent.id);
  const named = names.find((name) => name === (query.get("window") ?? windowOf(span)));
  const window = named ?? lifetime;
  const scale: Scale = query.get("scale") === "values" ? "values" : "limit";
  const live = useLive<Metrics>(`${agentPath(agent.id)}/metrics?window=${window}`, { every });
  // The curves of the last window stay until those of the next one are there.
  const last = useRef<{ metrics: Metrics; window: MetricsWindow; updated: number | undefined } | undefined>(undefined);
  if (live.data !== undefined) {
    last.current = { metrics: live.data, window, updated: live.updated };
  }
  const shown = last.current;
  const choose = (change: { window?: MetricsWindow; scale?: Scale }) => {
    const next = { window: named, scale, ...change };
    if (change.window !== undefined) {
      chooseSpan(agent.id, change.window);
    }
    const query = {
      window: next.window,
      scale: next.scale === "limit" ? undefined : next.scale,
    };
    navigate(tabHref(agent.id, "metrics", query), { replace: true });
  };
  return (
    <section class="stack" aria-labelledby="metrics-heading">
      <div class="page-head">
        <h2 id="metrics-heading">Metrics</h2>
        <div class="actions">
          <div class="segments" role="group" aria-label="Scale of CPU and memory">
            <span class="name small quiet">Scale</span>
            <Button kind="plain" pressed={scale === "limit"} onClick={() => choose({ scale: "limit" })}>
              Plan limit
            </Button>
            <Button kind="plain" pressed={scale === "values"} onClick={() => choose({ scale: "values" })}>
              Values
            </Button>
          </div>
          <div class="segments" role="group" aria-label="Window">
            {names.map((name) => (
              <Button key={name} kind="plain" pressed={name === window} onClick={() => choose({ window: name })}>
                {windows[name].name}
              </Button>
            ))}
          </div>
        </div>
      </div>
      <Following
        live={shown === undefined ? live : { ...live, data: shown.metrics, updated: shown.updated }}
        what="the metrics"
      >
        {(metrics) => (
          <Content agent={agent} metrics={metrics} window={shown?.window ?? window} scale={scale} />
        )}
      </Following>
    </section>
  );
}

/** The window that shows at least a stretch of time. */
const windowOf = (span: string): MetricsWindow | undefined => {
  const length = millisecondsOf(span);
  return length === undefined ? undefined : names.find((name) => windows[name].seconds * 1_000 >= length);
};

function Content(props: { agent: Agent; metrics: Metrics; window: MetricsWindow; scale: Scale }) {
  const { agent, metrics, window, scale } = props;
  const { seconds, step } = windows[window];
  const aligned = useMemo(() => align(metrics.series, step), [metrics, step]);
  // A value is that of the interval that begins at its time.
  const newest = (aligned.times.at(-1) ?? 0) + step;
  const to = useMemo(() => Math.max(Math.floor(serverNow() / 1_000), newest), [metrics, newest]);
  const { events } = useEvents(agent);
  const markers = useMemo(() => markersOf(events, to - seconds, to, step), [events, to, seconds, step]);
  return (
    <>
      <Collected agent={agent} metrics={metrics} />
      <Figures agent={agent} metrics={metrics} />
      <div class="grid curves">
        {curves.map((curve) => (
          <CurveCard
            key={curve.name}
            curve={curve}
            agent={agent}
            points={metrics.series[curve.name]}
            times={aligned.times}
            values={aligned.values[curve.name]}
            from={to - seconds}
            to={to}
            toLimit={scale === "limit"}
            markers={markers}
          />
        ))}
      </div>
      <MarkerList agent={agent} markers={markers} />
      <Awake agent={agent} />
      <ValuesTable aligned={aligned} />
    </>
  );
}

/** How old the figures are, and why there may be none. */
function Collected({ agent, metrics }: { agent: Agent; metrics: Metrics }) {
  if (metrics.collected_at === null) {
    return (
      <Notice tone="idle" title="Nothing is collected yet">
        <p>Metrics are collected every minute while you look at them. The first figures appear soon after the start.</p>
      </Notice>
    );
  }
  const collected = <Time value={metrics.collected_at} />;
  if (metrics.stale) {
    return (
      <Notice tone="warn" live title="These figures are old">
        <p>
          They were collected {collected}, and a newer collection is overdue. This page shows it as soon as it is there.
        </p>
      </Notice>
    );
  }
  const idle = agent.status !== "running" && !hasPoints(metrics);
  return (
    <p class="small quiet">
      Collected {collected}. While you look, a collection takes place every minute.
      {idle ? " An agent that does not run has no values of now." : ""}
    </p>
  );
}
