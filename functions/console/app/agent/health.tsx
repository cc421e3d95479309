import type { Agent, Metrics } from "@agents.example/client/schema";
import { useLive } from "../api/live";
import { formatBytes, formatCores, formatNumber, formatUptime, orMissing, plural } from "../ui/format";
import { Failure, Stale, Waiting } from "../ui/feedback";
import { Time } from "../ui/time";
import { agentPath, tabHref } from "./paths";

const every = 30_000;

/** The newest figures of an agent, in short. The metrics tab has the curves. */
export function Health({ agent }: { agent: Agent }) {
  const live = useLive<Metrics>(`${agentPath(agent.id)}/metrics?window=1h`, { every });
  const { data, error, refresh } = live;
  return (
    <section class="card" aria-label="Health">
      <div class="head">
        <h2>Health</h2>
        {data?.collected_at == null ? null : (
          <span class="quiet small">
            measured <Time value={data.collected_at} />
            {data.stale ? ", a newer measurement is overdue" : ""}
          </span>
        )}
        <span class="actions">
          <a href={tabHref(agent.id, "metrics")}>All metrics</a>
        </span>
      </div>
      <div class="body stack">
        <Stale live={live} />
        {data !== undefined ? (
          <Figures agent={agent} metrics={data} />
        ) : error ? (
          <Failure error={error} retry={refresh} title="The figures could not be loaded" />
        ) : (
          <Waiting what="the figures" />
        )}
      </div>
    </section>
  );
}

const formatPercent = (value: number): string => `${formatNumber(Math.round(value * 10) / 10)}%`;

function Figures({ agent, metrics }: { agent: Agent; metrics: Metrics }) {
  const { cpu_cores: cores, memory_bytes: memory, storage_bytes: storage } = agent.config.plan_limits;
  const restarts = metrics.collected_at === null ? null : metrics.restarts_24h;
  return (
    <div class="health">
      <Gauge name="CPU" part={metrics.cpu_pct} of={formatCores(cores)} />
      <Gauge name="Memory" part={metrics.mem_pct} of={formatBytes(memory)} />
      <Gauge name="Volume" part={metrics.pvc_pct} of={formatBytes(storage)} />
      <dl class="health-figures">
        <div>
          <dt>Up, last 24 hours</dt>
          <dd>{orMissing(metrics.uptime_pct_24h, formatUptime)}</dd>
        </div>
        <div>
          <dt>Restarts, last 24 hours</dt>
          <dd>{orMissing(restarts, (value) => plural(value, "restart"))}</dd>
        </div>
        <div>
          <dt>Latency, 95th percentile</dt>
          <dd>{orMissing(metrics.latency_p95_ms, (value) => `${formatNumber(Math.round(value))} ms`)}</dd>
        </div>
      </dl>
    </div>
  );
}

/** From these parts of a limit on, the gauge warns. */
const high = 80;
const veryHigh = 95;

/** How much of a limit is in use. No data is not zero. */
function Gauge({ name, part, of }: { name: string; part: number | null; of: string }) {
  const tone = part === null ? "" : part >= veryHigh ? "tone-bad" : part >= high ? "tone-warn" : "";
  const word = part === null ? "" : part >= veryHigh ? ", almost all" : part >= high ? ", high" : "";
  const text = part === null ? "no data" : `${formatPercent(part)} of ${of}${word}`;
  const style = { "--part": `${Math.min(part ?? 0, 100)}%` };
  return (
    <div class={`meter ${tone}`}>
      <div class="line">
        <span>{name}</span>
        <span class="quiet number">{text}</span>
      </div>
      <div class={part === null ? "track no-data" : "track"} aria-hidden="true">
        <div class="fill" style={style} />
      </div>
    </div>
  );
}
