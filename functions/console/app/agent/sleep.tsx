import type { Agent, AgentSleepSpec } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { sentenceOf } from "../agents/wrong";
import { violationsAt } from "../api/errors";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Checkbox, Select, TextField } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { sleepTime, wakersText } from "./sleep-text";
import { useAgentChange } from "./use-change";

/** When the agent falls asleep, and what wakes it. */
export function Sleep({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [asking, setAsking] = useState(false);
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  const after = agent.sleep.after_seconds;
  return (
    <section class="card" aria-label="Sleep">
      <div class="head">
        <h2>Sleep</h2>
        <span class="badge tone-idle">{after === null ? "Never" : `After ${sleepTime(after)}`}</span>
      </div>
      <div class="body stack">
        <p>
          {after === null
            ? "The agent stays awake, also when it is not used."
            : `The agent falls asleep after ${sleepTime(after)} without a request, an open connection, and work ` +
              `that its program tells of. ${wakersText(agent.sleep)}`}
        </p>
        <p class="quiet">An agent that is asleep has no pod, and keeps its volume, its address and its credentials.</p>
        <div class="row">
          <Button onClick={() => setAsking(true)} unavailable={unavailable}>
            Change when it sleeps
          </Button>
        </div>
        {asking ? <SleepDialog agent={agent} onClose={() => setAsking(false)} /> : null}
      </div>
    </section>
  );
}

const never = "never";
const custom = "custom";
const times = [300, 1_800, 7_200, 86_400];

const choices = [
  { value: never, label: "Never" },
  ...times.map((seconds) => ({ value: String(seconds), label: `After ${sleepTime(seconds)}` })),
  { value: custom, label: "After another time" },
];

const choiceOf = (after: number | null): string =>
  after === null ? never : times.includes(after) ? String(after) : custom;

/** The seconds that the choice means: null for never, and NaN for what is no number. */
function secondsOf(choice: string, minutes: string): number | null {
  switch (choice) {
    case never:
      return null;
    case custom:
      return minutes.trim() === "" ? Number.NaN : Math.round(Number(minutes) * 60);
    default:
      return Number(choice);
  }
}

const wrongMinutes = (seconds: number | null): string[] =>
  seconds === null || (seconds >= 300 && seconds <= 604_800) ? [] : ["Give 5 to 10,080 minutes, which are 7 days."];

function SleepDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const { after_seconds: after, wake_on: wakers } = agent.sleep;
  const first = after === null && wakers.length === 0; // then both wake it, as the service has it by default
  const [choice, setChoice] = useState(choiceOf(after));
  const [minutes, setMinutes] = useState(after === null ? "" : String(after / 60));
  const [request, setRequest] = useState(first || wakers.includes("request"));
  const [schedule, setSchedule] = useState(first || wakers.includes("schedule"));
  const [checked, setChecked] = useState(false);
  const seconds = secondsOf(choice, minutes);
  const wrong = wrongMinutes(seconds);
  const sleep: AgentSleepSpec = { after_seconds: seconds };
  if (seconds !== null) {
    sleep.wake_on = [...(request ? (["request"] as const) : []), ...(schedule ? (["schedule"] as const) : [])];
  }
  const change = { path: agentPath(agent.id), method: "PATCH", body: { sleep } } as const;
  const said = seconds === null ? "The agent never sleeps now." : `The agent sleeps after ${sleepTime(seconds)} now.`;
  const submit = useAgentChange(change, () => said, onClose);
  return (
    <Dialog
      title="When does it fall asleep?"
      onClose={onClose}
      onSubmit={() => {
        setChecked(true);
        if (wrong.length === 0) {
          submit.send();
        }
      }}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          Save
        </Button>
      }
    >
      <Select label="Falls asleep without use" value={choice} options={choices} onChange={setChoice} />
      {choice === custom ? (
        <TextField
          label="Minutes without use"
          type="number"
          value={minutes}
          onInput={setMinutes}
          hint="5 minutes to 7 days."
          wrong={checked ? wrong : violationsAt(submit.error, "sleep").map(sentenceOf)}
        />
      ) : null}
      {seconds === null ? null : (
        <fieldset class="field">
          <legend class="label">What wakes it, apart from an admin</legend>
          <Checkbox
            label="Requests"
            checked={request}
            onChange={setRequest}
            hint="The first one is answered when the agent is ready, after some seconds."
          />
          <Checkbox label="Schedules" checked={schedule} onChange={setSchedule} />
        </fieldset>
      )}
      <p class="quiet">
        Saving replaces the pod of a running agent: it does not answer for some seconds. An agent that is asleep
        sleeps on, unless it shall never sleep.
      </p>
      {submit.busy || submit.error !== undefined || wrong.length > 0 ? null : (
        <Forecast change={change} asOf={agent.status} />
      )}
      <SubmitFailure submit={submit} title="The agent was not changed" retry="submit" />
    </Dialog>
  );
}
