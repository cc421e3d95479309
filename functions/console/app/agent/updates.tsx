import type { Agent, AgentImage, ImageDay, ImageMaintenanceWindow, ImagePolicy } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { sentenceOf } from "../agents/wrong";
import { violationsAt } from "../api/errors";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Checkbox, Select, TextField } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { dayText, days, policyText } from "./image-text";
import { agentPath } from "./paths";
import { useAgentChange } from "./use-change";

const policies: ImagePolicy[] = ["auto", "window", "pinned"];

/** A window that many people would choose. */
const usualWindow = (): ImageMaintenanceWindow => ({
  days: ["saturday", "sunday"],
  start: "02:00",
  hours: 4,
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
});

/** Asks when the agent takes another version. */
export function UpdatesDialog({ agent, image, onClose }: { agent: Agent; image: AgentImage; onClose: () => void }) {
  const [policy, setPolicy] = useState<ImagePolicy>(image.policy);
  const [chosen, setChosen] = useState<ImageMaintenanceWindow>(image.maintenance_window ?? usualWindow());
  const body = policy === "window" ? { image_policy: policy, maintenance_window: chosen } : { image_policy: policy };
  const submit = useAgentChange(
    { path: agentPath(agent.id), method: "PATCH", body },
    () => "The agent’s updates were changed.",
    onClose,
  );
  const change = (part: Partial<ImageMaintenanceWindow>) => setChosen({ ...chosen, ...part });
  const wrong = (...field: string[]) =>
    submit.error === undefined ? [] : violationsAt(submit.error, "maintenance_window", ...field).map(sentenceOf);
  return (
    <Dialog
      title="When does the agent update?"
      onClose={onClose}
      onSubmit={submit.send}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          Save
        </Button>
      }
    >
      <Select
        label="Updates"
        value={policy}
        options={policies.map((value) => ({ value, label: policyText(value) }))}
        onChange={(value) => setPolicy(value as ImagePolicy)}
        hint="An update replaces the pod: the agent does not answer for some seconds."
      />
      {policy === "window" ? (
        <>
          <Days chosen={chosen.days} onChange={(list) => change({ days: list })} wrong={wrong("days")} />
          <TextField
            label="Begins at"
            value={chosen.start}
            onInput={(start) => change({ start })}
            hint="A time of day, such as 02:30."
            wrong={wrong("start")}
          />
          <TextField
            label="Hours"
            type="number"
            value={String(chosen.hours)}
            onInput={(hours) => change({ hours: Number(hours) })}
            hint="1 to 24."
            wrong={wrong("hours")}
          />
          <TextField
            label="Time zone"
            value={chosen.timezone}
            onInput={(timezone) => change({ timezone })}
            hint="A name such as Europe/Berlin."
            wrong={wrong("timezone")}
          />
        </>
      ) : null}
      <SubmitFailure submit={submit} title="The agent’s updates were not changed" retry="submit" />
    </Dialog>
  );
}

function Days(props: { chosen: ImageDay[]; onChange: (days: ImageDay[]) => void; wrong: string[] }) {
  const { chosen, onChange, wrong } = props;
  return (
    <fieldset class="field">
      <legend class="label">Days on which it begins</legend>
      {days.map((day) => (
        <Checkbox
          key={day}
          label={dayText(day)}
          checked={chosen.includes(day)}
          onChange={(on) => onChange(days.filter((one) => (one === day ? on : chosen.includes(one))))}
        />
      ))}
      {wrong.map((sentence) => (
        <span class="wrong" key={sentence}>
          {sentence}
        </span>
      ))}
    </fieldset>
  );
}
