import type { Agent } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { sentenceOf } from "../agents/wrong";
import { violationsAt } from "../api/errors";
import type { Change } from "../api/submit";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { Moment, useHasPassed } from "./moment";
import { agentPath } from "./paths";
import { useAgentChange } from "./use-change";

/** Sets the time at which an agent is woken; null forgets it. */
const wakeAt = ({ id }: Agent, at: string | null): Change => ({
  path: `${agentPath(id)}/wake-at`,
  method: "POST",
  body: { at },
});

/** The one time at which the agent is woken. */
export function WakeAt({ agent, unavailable }: { agent: Agent; unavailable: string | undefined }) {
  const [asking, setAsking] = useState(false);
  const { wake_at: at } = agent;
  const passed = useHasPassed(at);
  const clear = useAgentChange(wakeAt(agent, null), () => "The time is forgotten.");
  const { after_seconds: after, wake_on: wakers } = agent.sleep;
  const sleepsOn =
    after === null || wakers.includes("schedule") ? undefined : "Its setting of sleep does not let schedules wake it.";
  return (
    <section class="card" aria-label="One-time wake">
      <div class="head">
        <h2>One-time wake</h2>
      </div>
      <div class="body stack">
        <p>
          {at === null ? (
            "No time is set."
          ) : passed ? (
            <>
              The time <Moment value={at} /> has passed: the agent is woken now, if it sleeps. {sleepsOn}
            </>
          ) : (
            <>
              It is woken on <Moment value={at} />, if it sleeps then. {sleepsOn}
            </>
          )}
        </p>
        <p class="quiet">
          Nothing is sent to the agent. Its program may set the time, too, with the agent’s own key. An agent that is
          stopped, or that was paused by a person, stays so.
        </p>
        <div class="row">
          <Button icon="waiting" unavailable={unavailable ?? sleepsOn} onClick={() => setAsking(true)}>
            {at === null ? "Set a time" : "Change the time"}
          </Button>
          {at === null ? null : (
            <Button unavailable={unavailable} busy={clear.busy} onClick={() => void clear.send()}>
              Forget the time
            </Button>
          )}
        </div>
        <SubmitFailure submit={clear} title="The time was not changed" />
        {asking ? <WakeAtDialog agent={agent} onClose={() => setAsking(false)} /> : null}
      </div>
    </section>
  );
}

/** A time as the browser's field for it wants it. */
function localText(at: Date): string {
  const shifted = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}

function WakeAtDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const [text, setText] = useState(agent.wake_at === null ? "" : localText(new Date(agent.wake_at)));
  const [checked, setChecked] = useState(false);
  const time = new Date(text);
  const empty = Number.isNaN(time.getTime());
  const at = empty ? null : time.toISOString();
  const submit = useAgentChange(wakeAt(agent, at), () => "The time is set.", onClose);
  const wrong = checked && empty ? ["Enter a date and a time."] : violationsAt(submit.error, "at").map(sentenceOf);
  return (
    <Dialog
      title="When is it woken?"
      onClose={onClose}
      onSubmit={async () => {
        setChecked(true);
        if (!empty) {
          await submit.send();
        }
      }}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          Save
        </Button>
      }
    >
      <TextField
        label="Time"
        type="datetime-local"
        value={text}
        onInput={setText}
        hint={`In your time zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}. At most 366 days ahead.`}
        wrong={wrong}
        autofocus
        required
      />
      {wrong.length > 0 ? null : <SubmitFailure submit={submit} title="The time was not set" retry="submit" />}
    </Dialog>
  );
}
