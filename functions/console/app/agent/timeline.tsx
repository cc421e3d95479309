import type { Agent, AgentStage } from "@agents.example/client/schema";
import { useEffect, useState } from "preact/hooks";
import type { Appearance } from "../ui/badge";
import { plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { formatDuration, Time, useNow } from "../ui/time";
import { type Span, spanOf, timeOf } from "./span";
import { stageText } from "./stage-text";

const appearances: Record<string, Appearance> = {
  pending: { icon: "waiting", tone: "idle", text: "Not started" },
  running: { icon: "busy", tone: "busy", text: "Under way" },
  succeeded: { icon: "check", tone: "good", text: "Done" },
  failed: { icon: "error", tone: "bad", text: "Failed" },
  skipped: { icon: "check", tone: "idle", text: "Nothing to do" },
};

const appearanceOf = (stage: AgentStage): Appearance =>
  appearances[stage.status] ?? { icon: "info", tone: "idle", text: stage.status };

/**
 * The provisioning stages: what each one does, how long it took, and what failed. It is closed if all were done before.
 */
export function Timeline({ agent }: { agent: Agent }) {
  const stages = agent.config.provisioning_stages;
  const runs = isUnderWay(agent);
  const span = spanOf(stages, runs);
  const { begin, end, done, replaced } = span;
  const [watched, setWatched] = useState(false);
  useEffect(() => setWatched(watched || !done), [done]);
  const list = <Stages stages={stages} span={span} runs={runs} shown={agent.config.error?.message} />;
  if (done && end !== undefined && begin !== undefined) {
    return (
      <details class="card timeline-card" open={watched}>
        <summary class="head">
          <h2>Provisioning</h2>
          <span class="quiet">
            {replaced ? "the pod was replaced later, ready" : <>took {formatDuration(end - begin)}, done</>}{" "}
            <Time value={end} />
          </span>
          <Icon name="down" />
        </summary>
        <div class="body">{list}</div>
      </details>
    );
  }
  return (
    <section class="card timeline-card" aria-label="Provisioning">
      <div class="head">
        <h2>Provisioning</h2>
        <Progress agent={agent} begin={begin} />
      </div>
      <div class="body">{list}</div>
    </section>
  );
}

const isUnderWay = (agent: Agent): boolean => ["pending", "provisioning", "running"].includes(agent.status);

function Progress({ agent, begin }: { agent: Agent; begin: number | undefined }) {
  const now = useNow();
  const stages = agent.config.provisioning_stages;
  const done = stages.filter((stage) => stage.status === "succeeded" || stage.status === "skipped").length;
  const clock = isUnderWay(agent) && begin !== undefined ? `, ${formatClock(now - begin)} so far` : "";
  return (
    <span class="quiet number">
      {done} of {plural(stages.length, "stage")} done{clock}
    </span>
  );
}

/** A clock that moves by seconds. The service's clock may be a little ahead of the browser's. */
function formatClock(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1_000));
  return seconds < 10 ? `${seconds} s` : formatDuration(seconds * 1_000);
}

interface Frame {
  span: Span;
  /** Whether the service works on the stages. */
  runs: boolean;
  /** The message that the page shows already. */
  shown: string | undefined;
}

function Stages({ stages, ...frame }: Frame & { stages: AgentStage[] }) {
  return (
    <ol class="timeline">
      {stages.map((stage) => (
        <Stage key={stage.name} stage={stage} {...frame} />
      ))}
    </ol>
  );
}

function Stage(props: Frame & { stage: AgentStage }) {
  const { stage, runs, shown } = props;
  const { icon, tone, text } = appearanceOf(stage);
  const { title, about } = stageText(stage.name);
  const turning = stage.status === "running" && runs;
  return (
    <li class={`stage ${stage.status}`}>
      <span class={`mark tone-${tone}`}>
        <Icon name={icon} turning={turning} />
      </span>
      <div class="what">
        <div class="line">
          <h3>{title}</h3>
          <span class="quiet small">
            {text}
            {stage.attempt > 1 ? `, attempt ${stage.attempt}` : ""}
          </span>
        </div>
        <p class="quiet small">{about}</p>
        {stage.message === null ? null : (
          <p class={`small problem ${stage.status === "failed" ? "bad" : "warn"}`}>
            {stage.message === shown ? "See above." : stage.message}{" "}
            {stage.error_code === null ? null : <code>{stage.error_code}</code>}
          </p>
        )}
      </div>
      <Duration {...props} />
    </li>
  );
}

/** How long a stage took, in figures and as a bar on the time of all stages. */
function Duration(props: Frame & { stage: AgentStage }) {
  const { stage, runs } = props;
  const { begin, end, replaced } = props.span;
  const now = useNow();
  const from = timeOf(stage.started_at);
  const clock = runs && stage.status === "running";
  const to = timeOf(stage.finished_at) ?? (clock && from !== undefined ? Math.max(now, from) : undefined);
  if (from === undefined || to === undefined || begin === undefined) {
    return <span class="duration quiet small">{stage.status === "skipped" ? "none" : ""}</span>;
  }
  const total = Math.max((end ?? Math.max(now, to)) - begin, 1);
  const left = Math.min(Math.max((from - begin) / total, 0), 1);
  const width = Math.min(Math.max((to - from) / total, 0), 1 - left);
  const style = { "--left": `${left * 100}%`, "--width": `${width * 100}%` };
  return (
    <span class="duration number small">
      {replaced ? null : (
        <span class="bar" aria-hidden="true" style={style}>
          <span class="part" />
        </span>
      )}
      {clock ? formatClock(to - from) : formatDuration(to - from)}
    </span>
  );
}
