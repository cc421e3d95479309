import type { Agent, AgentSchedule } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { sentenceOf } from "../agents/wrong";
import { violationsAt } from "../api/errors";
import { putLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Checkbox, Select, TextArea, TextField } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { agentPath } from "./paths";
import { type ScheduleTerms, changeSchedule, termsOf } from "./schedule-change";
import { cronText } from "./schedule-text";

const browserZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The time zones that the browser knows, with the likely ones first. */
const zones = (present: string): string[] => [
  ...new Set([present, browserZone(), "UTC", ...Intl.supportedValuesOf("timeZone")]),
];

const policies: Record<string, string> = {
  skip: "Leave them out",
  run_once: "Call it once for all of them",
};

const emptyTerms = (): ScheduleTerms => ({
  id: "",
  cron: "",
  timezone: browserZone(),
  path: "",
  body: "",
  missed: "skip",
  enabled: true,
});

/** What is missing, by field. The service checks the rest. */
function missing({ id, cron, path }: ScheduleTerms): Partial<Record<keyof ScheduleTerms, string>> {
  const found: Partial<Record<keyof ScheduleTerms, string>> = {};
  if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(id)) {
    found.id = "Enter lower-case letters, digits, and hyphens between them.";
  }
  if (cron === "") {
    found.cron = "Enter when the agent is called.";
  }
  if (path === "") {
    found.path = "Enter the path that is called.";
  }
  return found;
}

const fields: (keyof ScheduleTerms)[] = ["id", "cron", "timezone", "path", "body", "missed", "enabled"];

/** Adds a schedule, or changes one. */
export function ScheduleForm(props: { agent: Agent; schedule: AgentSchedule | undefined; onClose: () => void }) {
  const { agent, schedule, onClose } = props;
  const [seen] = useState(schedule && termsOf(schedule)); // also if it changes in between
  const [draft, setDraft] = useState<ScheduleTerms>(seen ?? emptyTerms);
  const [checked, setChecked] = useState(false);
  const set = (part: Partial<ScheduleTerms>) => setDraft({ ...draft, ...part });
  const terms = { ...draft, id: draft.id.trim(), cron: draft.cron.trim(), path: draft.path.trim() };
  const lacks = missing(terms);
  const submit = useSubmit(async () => {
    putLive(agentPath(agent.id), await changeSchedule(agent.id, seen, terms));
    toast(seen === undefined ? `${terms.id} is added.` : `${terms.id} is changed.`);
    onClose();
  });
  const refused = (field: keyof ScheduleTerms) => violationsAt(submit.error, field).map(sentenceOf);
  const wrong = (field: keyof ScheduleTerms): string[] => {
    const lack = lacks[field];
    return checked && lack !== undefined ? [lack] : refused(field);
  };
  const atFields = fields.flatMap(refused).length;
  return (
    <Dialog
      title={seen === undefined ? "Add a schedule" : `Change ${seen.id}`}
      onClose={onClose}
      typed={JSON.stringify(draft) !== JSON.stringify(seen ?? emptyTerms())}
      onSubmit={async () => {
        setChecked(true);
        if (Object.keys(lacks).length === 0) {
          await submit.send();
        }
      }}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          Save
        </Button>
      }
    >
      {seen === undefined ? (
        <TextField
          label="Name"
          value={draft.id}
          onInput={(id) => set({ id })}
          placeholder="daily-report"
          hint="It stays as it is. Lower-case letters, digits and hyphens."
          wrong={wrong("id")}
          maxLength={40}
          autofocus
          required
          mono
        />
      ) : null}
      <TextField
        label="When, as a cron expression"
        value={draft.cron}
        onInput={(cron) => set({ cron })}
        placeholder="30 9 * * MON-FRI"
        hint={cronText(draft.cron) || "Minute, hour, day of month, month and day of week."}
        wrong={wrong("cron")}
        autofocus={seen !== undefined}
        required
        mono
      />
      <Select
        label="Time zone"
        value={draft.timezone}
        options={zones(draft.timezone).map((zone) => ({ value: zone, label: zone }))}
        onChange={(timezone) => set({ timezone })}
        wrong={wrong("timezone")}
      />
      <TextField
        label="Path"
        value={draft.path}
        onInput={(path) => set({ path })}
        placeholder="/v1/chat/completions"
        hint="The agent’s program gets a POST there."
        wrong={wrong("path")}
        required
        mono
      />
      <TextArea
        label="Body"
        value={draft.body}
        onInput={(body) => set({ body })}
        hint="What is sent: JSON, or text. Members do not see it. Set a secret as a variable, not here."
        wrong={wrong("body")}
        mono
      />
      <Select
        label="Times that it missed by more than 30 minutes"
        value={draft.missed}
        options={[...new Set([...Object.keys(policies), draft.missed])].map((value) => ({
          value,
          label: policies[value] ?? value,
        }))}
        onChange={(value) => set({ missed: value as ScheduleTerms["missed"] })}
        hint="Because the agent was stopped or paused, or because the call before took that long."
        wrong={wrong("missed")}
      />
      <Checkbox
        label="On"
        checked={draft.enabled}
        onChange={(enabled) => set({ enabled })}
        hint="The agent is called. Off keeps the schedule without calls."
      />
      <p class="quiet">The pod stays: a change of schedules restarts nothing.</p>
      {atFields > 0 && atFields === submit.error?.violations.length ? null : (
        <SubmitFailure submit={submit} title="The schedule was not saved" retry="submit" />
      )}
    </Dialog>
  );
}
