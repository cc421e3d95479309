import type { Agent, AgentSchedule } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { putLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { toast } from "../ui/announce";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { plural } from "../ui/format";
import { SubmitFailure } from "../ui/submit-failure";
import { Time } from "../ui/time";
import { Moment, useHasPassed } from "./moment";
import { agentPath, tabHref } from "./paths";
import { changeSchedule, type ScheduleTerms, termsOf } from "./schedule-change";
import { ScheduleForm } from "./schedule-form";
import { callDuration, callState, callText, cronText } from "./schedule-text";
import { WakeAt } from "./wake-at";

type Doing = { kind: "set"; schedule?: AgentSchedule } | { kind: "remove"; schedule: AgentSchedule };

const most = 20;

/** When the agent is called, and when it is woken. */
export function SchedulesTab({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [doing, setDoing] = useState<Doing>();
  const close = () => setDoing(undefined);
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  const full = agent.schedules.length >= most ? `An agent has at most ${most} schedules.` : undefined;
  return (
    <div class="stack">
      <section class="card" aria-label="Schedules">
        <div class="head">
          <h2>Schedules</h2>
          <span class="actions">
            <Button icon="plus" unavailable={unavailable ?? full} onClick={() => setDoing({ kind: "set" })}>
              Add a schedule
            </Button>
          </span>
        </div>
        <div class="body stack">
          <Explanation agent={agent} />
        </div>
        {agent.schedules.length === 0 ? null : (
          <ul class="schedules">
            {agent.schedules.map((schedule) => (
              <Schedule
                key={schedule.id}
                agent={agent}
                schedule={schedule}
                unavailable={unavailable}
                onChange={() => setDoing({ kind: "set", schedule })}
                onRemove={() => setDoing({ kind: "remove", schedule })}
              />
            ))}
          </ul>
        )}
      </section>
      <WakeAt agent={agent} unavailable={unavailable} />
      {doing?.kind === "set" ? <ScheduleForm agent={agent} schedule={doing.schedule} onClose={close} /> : null}
      {doing?.kind === "remove" ? <RemoveSchedule agent={agent} schedule={doing.schedule} onClose={close} /> : null}
    </div>
  );
}

function Explanation({ agent }: { agent: Agent }) {
  const { called, text } = callText(agent);
  const none = agent.schedules.length === 0;
  const setting = <a href={tabHref(agent.id, "settings")}>See when it sleeps.</a>;
  return (
    <>
      <p>
        {none ? "The agent has no schedules. A schedule" : "Each schedule"} sends a POST to the agent’s program at its
        times, once for each. {called && text !== "" ? <>{text} {setting}</> : null}
      </p>
      {called ? null : (
        <Notice tone="warn">
          <p>
            {text} {agent.config.status_reason === "idle" ? setting : null}
          </p>
        </Notice>
      )}
      <p class="quiet small">
        An agent whose pod is older than the release that brought schedules is called from its next start on.
      </p>
    </>
  );
}

function Schedule(props: {
  agent: Agent;
  schedule: AgentSchedule;
  unavailable: string | undefined;
  onChange: () => void;
  onRemove: () => void;
}) {
  const { agent, schedule, unavailable } = props;
  const { id, cron, timezone, path, enabled, next_at: next, last, skipped } = schedule;
  const meaning = cronText(cron);
  const waits = useHasPassed(next);
  const toggle = useSubmit<ScheduleTerms>(async (_, seen) => {
    putLive(agentPath(agent.id), await changeSchedule(agent.id, seen, { ...seen, enabled: !seen.enabled }));
    toast(`${seen.id} is ${seen.enabled ? "off" : "on"}.`);
  });
  return (
    <li class="stack-tight">
      <div class="row">
        <h3>
          <code>{id}</code>
        </h3>
        <span class={`badge tone-${enabled ? "good" : "idle"}`}>{enabled ? "On" : "Off"}</span>
        <span class="actions">
          <Button
            kind="plain"
            busy={toggle.busy}
            unavailable={unavailable}
            onClick={() => void toggle.send(termsOf(schedule))}
          >
            {enabled ? "Turn off" : "Turn on"}
            <span class="visually-hidden"> {id}</span>
          </Button>
          <Button kind="plain" icon="pencil" iconOnly unavailable={unavailable} onClick={props.onChange}>
            {`Change ${id}`}
          </Button>
          <Button kind="plain" icon="trash" iconOnly unavailable={unavailable} onClick={props.onRemove}>
            {`Remove ${id}`}
          </Button>
        </span>
      </div>
      <dl class="facts">
        <dt>When</dt>
        <dd>
          {meaning === "" ? null : `${meaning}: `}
          <code class={meaning === "" ? "" : "nowrap"}>{cron}</code> <span class="quiet">{timezone}</span>
        </dd>
        <dt>What</dt>
        <dd>
          <code>POST {path}</code>
        </dd>
        <dt>Next call</dt>
        <dd>
          {next === null ? (
            <span class="quiet">None</span>
          ) : waits ? (
            <>
              Due since <Moment value={next} />: it waits until the agent runs and its last call has ended.
            </>
          ) : (
            <Moment value={next} />
          )}
        </dd>
        <dt>Last call</dt>
        <dd>
          {last === null ? (
            <span class="quiet">None yet</span>
          ) : (
            <span class="row">
              <Badge {...callState(last)} />
              {callDuration(last) === "" ? null : <span>{callDuration(last)}</span>}
              <span class="quiet">
                <Time value={last.due_at} />
              </span>
            </span>
          )}
        </dd>
        {skipped === 0 ? null : (
          <>
            <dt>Skipped</dt>
            <dd>{plural(skipped, "time")} without a call</dd>
          </>
        )}
      </dl>
      <SubmitFailure submit={toggle} title="The schedule was not changed" />
    </li>
  );
}

function RemoveSchedule({ agent, schedule, onClose }: { agent: Agent; schedule: AgentSchedule; onClose: () => void }) {
  const [seen] = useState(termsOf(schedule)); // what the person was asked about
  const submit = useSubmit(async () => {
    putLive(agentPath(agent.id), await changeSchedule(agent.id, seen, undefined));
    toast(`${seen.id} is removed.`);
    onClose();
  });
  return (
    <Dialog
      title={`Remove ${seen.id}?`}
      onClose={onClose}
      onSubmit={submit.send}
      careful
      action={
        <Button kind="danger" type="submit" icon="trash" busy={submit.busy}>
          Remove the schedule
        </Button>
      }
    >
      <p>
        The agent is not called by it any more, and the body that it sends is lost. To keep it without calls, turn it
        off.
      </p>
      <SubmitFailure submit={submit} title={`${seen.id} was not removed`} />
    </Dialog>
  );
}
