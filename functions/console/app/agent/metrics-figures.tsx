import type { Agent, Metrics } from "@agents.example/client/schema";
import type { ComponentChildren } from "preact";
import { Badge } from "../ui/badge";
import { formatBytes, formatCores, formatNumber, formatUptime } from "../ui/format";
import { formatShare } from "./curves";

const percent = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

const formatPercent = (value: number): string => `${percent.format(value)}%`;

/** From this share on, in percent, a figure is marked. */
const nearLimit = 90;

/** An agent's figures of now and of the last day. What was not measured is "no data", never zero. */
export function Figures({ agent, metrics }: { agent: Agent; metrics: Metrics }) {
  const { cpu_cores, memory_bytes, storage_bytes } = agent.config.plan_limits;
  const collected = metrics.collected_at !== null;
  return (
    <dl class="figures">
      <Figure name="CPU" value={metrics.cpu_pct} format={formatPercent} limited>
        {metrics.cpu_cores === null
          ? `of ${formatCores(cpu_cores)}`
          : `${formatShare(metrics.cpu_cores)} of ${formatCores(cpu_cores)}`}
      </Figure>
      <Figure name="Memory" value={metrics.mem_pct} format={formatPercent} limited>
        {metrics.memory_bytes === null
          ? `of ${formatBytes(memory_bytes)}`
          : `${formatBytes(metrics.memory_bytes)} of ${formatBytes(memory_bytes)}`}
      </Figure>
      <Figure name="Volume" value={metrics.pvc_pct} format={formatPercent} limited>
        {`of ${formatBytes(storage_bytes)}`}
      </Figure>
      <Figure name="Restarts" value={collected ? metrics.restarts_24h : null} format={formatNumber}>
        in 24 hours
      </Figure>
      <Figure name="Uptime" value={metrics.uptime_pct_24h} format={formatUptime}>
        in 24 hours, pauses aside
      </Figure>
      <Figure name="Latency" value={metrics.latency_p95_ms} format={(value) => `${formatNumber(value)} ms`}>
        95% of requests are faster
      </Figure>
    </dl>
  );
}

function Figure(props: {
  name: string;
  value: number | null;
  format: (value: number) => string;
  /** Whether 100 percent is a limit of the plan. */
  limited?: boolean;
  children: ComponentChildren;
}) {
  const { name, value, format, limited = false, children } = props;
  return (
    <div class="card figure">
      <dt>{name}</dt>
      <dd class={value === null ? "value missing" : "value number"}>{value === null ? "no data" : format(value)}</dd>
      <dd class="small quiet">{children}</dd>
      {limited && value !== null && value >= nearLimit ? (
        <dd>
          <Badge tone="warn" icon="error" text="Near the limit" />
        </dd>
      ) : null}
    </div>
  );
}
