import type { Agent, AgentAwakeDay, Metrics } from "@agents.example/client/schema";
import { useLive } from "../api/live";
import { Failure, Waiting } from "../ui/feedback";
import { formatDuration } from "../ui/time";
import { agentPath } from "./paths";

const shownDays = 7;
const day = 86_400;

const dayName = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  day: "numeric",
  month: "short",
  timeZone: "UTC",
});

/** For how long the agent was awake on each of the last days. */
export function Awake({ agent }: { agent: Agent }) {
  const path = `${agentPath(agent.id)}/metrics?window=1h&awake=true`;
  const { data, error, refresh } = useLive<Metrics>(path, { every: 30_000 });
  return (
    <section class="card" aria-label="Time awake">
      <div class="head">
        <h2>Time awake</h2>
        <span class="quiet small">last {shownDays} days, in UTC</span>
      </div>
      <div class="body stack">
        {data !== undefined ? (
          <AwakeDays days={(data.awake ?? []).slice(-shownDays)} />
        ) : error ? (
          <Failure error={error} retry={refresh} title="The times could not be loaded" />
        ) : (
          <Waiting what="the times" />
        )}
      </div>
    </section>
  );
}

/** A bar for each day, filled as far as the agent had a pod, with the number next to it. */
function AwakeDays({ days }: { days: AgentAwakeDay[] }) {
  if (days.length === 0) {
    return <p class="quiet">The service has counted no times yet.</p>; // an answer of a former release
  }
  const awake = days.reduce((sum, { seconds }) => sum + seconds, 0);
  return (
    <>
      <p>
        Awake for {awakeText(awake)}. The rest of the time it was asleep, paused or stopped, and had no pod.
      </p>
      <ul class="awake">
        {days.map(({ date, seconds }, i) => (
          <li key={date}>
            <time datetime={date}>{dayName.format(new Date(`${date}T00:00:00Z`))}</time>
            <span class="track" aria-hidden="true">
              <span class="fill" style={{ "--part": `${Math.min(100, (100 * seconds) / day)}%` }} />
            </span>
            <span class="number">
              {awakeText(seconds)}
              <span class="visually-hidden"> awake</span>
              {i === days.length - 1 ? <span class="quiet"> so far</span> : null}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Seconds without the smallest part: 5 h 20 min. */
const awakeText = (seconds: number): string =>
  seconds < 60 ? `${seconds} s` : formatDuration(Math.floor(seconds / 60) * 60_000);
