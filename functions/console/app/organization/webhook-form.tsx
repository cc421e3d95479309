import type { EventType } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { violationsAt } from "../api/errors";
import type { Submit } from "../api/submit";
import { eventTitle, eventTypes } from "../events/event-text";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/feedback";
import { Checkbox, TextField } from "../ui/field";

/** What a person says about a webhook. */
export interface WebhookDraft {
  url: string;
  description: string;
  /** Empty for all events. */
  types: EventType[];
}

/** Whether lists have the same types. A person may choose them in another order than that of the service. */
export const sameTypes = (some: EventType[], others: EventType[]): boolean =>
  some.length === others.length && some.every((type) => others.includes(type));

const fields = ["url", "description", "types"];
const maxDescription = 200;

/** The dialog in which a webhook is described. */
export function WebhookForm(props: {
  title: string;
  label: string;
  start: WebhookDraft;
  submit: Submit<WebhookDraft>;
  onClose: () => void;
}) {
  const { title, label, start, submit, onClose } = props;
  const [url, setURL] = useState(start.url);
  const [description, setDescription] = useState(start.description);
  const [all, setAll] = useState(start.types.length === 0);
  const [types, setTypes] = useState(start.types);
  const [checked, setChecked] = useState(false);
  const chosen = all ? [] : types;
  const noURL = url.trim() === "";
  const noTypes = !all && types.length === 0;
  const send = async () => {
    setChecked(true);
    if (!noURL && !noTypes) {
      await submit.send({ url: url.trim(), description: description.trim(), types: chosen });
    }
  };
  const wrong = (field: string): string[] => violationsAt(submit.error, field).map(({ msg }) => msg);
  const shown = fields.some((field) => wrong(field).length > 0);
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={send}
      typed={url !== start.url || description !== start.description || !sameTypes(chosen, start.types)}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          {label}
        </Button>
      }
    >
      <TextField
        label="Address"
        value={url}
        onInput={setURL}
        placeholder="https://"
        autofocus
        required
        mono
        wrong={checked && noURL ? ["Enter the address of the receiver."] : wrong("url")}
        hint="An https address on the internet. Redirects are not followed."
      />
      <TextField
        label="Description"
        value={description}
        onInput={setDescription}
        maxLength={maxDescription}
        wrong={wrong("description")}
        hint="For you and the other admins."
      />
      <Checkbox label="All events" hint="Also those of types that are added later." checked={all} onChange={setAll} />
      {all ? null : <Types chosen={types} onChange={setTypes} />}
      {checked && noTypes ? <p class="wrong" role="alert">Choose at least one type of event.</p> : null}
      {submit.error === undefined || shown ? null : (
        <Failure error={submit.error} retry="submit" busy={submit.busy} />
      )}
    </Dialog>
  );
}

function Types(props: { chosen: EventType[]; onChange: (types: EventType[]) => void }) {
  const { chosen, onChange } = props;
  const known = [...eventTypes, ...chosen.filter((type) => !eventTypes.includes(type))];
  return (
    <fieldset class="event-types">
      <legend class="small quiet">Only these events</legend>
      {known.map((type) => (
        <Checkbox
          key={type}
          label={eventTitle(type)}
          checked={chosen.includes(type)}
          onChange={(on) => onChange(on ? [...chosen, type] : chosen.filter((other) => other !== type))}
        />
      ))}
    </fieldset>
  );
}
