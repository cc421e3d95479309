import { useLayoutEffect, useState } from "preact/hooks";
import { serverNow } from "../api/clock";
import { navigate } from "../router";
import { Button } from "../ui/button";
import { Field, TextField } from "../ui/field";
import { addressOf, type Filter, type FilterName, toLocal, toMoment } from "./audit-query";

const hour = 3_600_000;

const ranges: [string, number][] = [
  ["Last hour", hour],
  ["Last 24 hours", 24 * hour],
  ["Last 7 days", 7 * 24 * hour],
  ["Last 30 days", 30 * 24 * hour],
];

/** What the log is asked most often for. */
const actions = [
  "CreateAgent",
  "UpdateAgent",
  "DeleteAgent",
  "RestartAgent",
  "PauseAgent",
  "ResumeAgent",
  "StopAgent",
  "StartAgent",
  "RevealCredentials",
  "RotateCredentials",
  "PutSecrets",
  "DeleteSecret",
  "CreateAPIKey",
  "RevokeAPIKey",
  "SetMember",
  "RemoveMember",
  "CreateCheckoutSession",
  "CreatePortalSession",
];

const outcomes = ["succeeded", "begun", "role_required", "plan_capacity_exceeded", "agent_state_conflict", "not_found"];

/** Narrows the log. On a narrow page it is closed until it is wanted. */
export function Filters({ filter }: { filter: Filter }) {
  const filtered = Object.keys(filter).length > 0;
  const [opened] = useState(() => filtered || matchMedia("(min-width: 721px)").matches);
  return (
    <details class="card filters" open={opened}>
      <summary>{filtered ? "Filter (on)" : "Filter"}</summary>
      <FilterForm filter={filter} filtered={filtered} />
    </details>
  );
}

/** What is typed: a filter whose times are those of the viewer's zone, as the fields have them. */
type Draft = Filter;

const draftOf = (filter: Filter): Draft => ({ ...filter, from: toLocal(filter.from), to: toLocal(filter.to) });

/** The filter of a draft. A time that was not changed keeps its seconds, which the field does not have. */
function filterOf(draft: Draft, last: Filter): Filter {
  const moment = (name: "from" | "to") => {
    const typed = draft[name] ?? "";
    return typed === toLocal(last[name]) ? (last[name] ?? "") : toMoment(typed);
  };
  const trimmed = Object.entries(draft).map(([name, value]) => [name, value.trim()]);
  return { ...(Object.fromEntries(trimmed) as Filter), from: moment("from"), to: moment("to") };
}

function FilterForm({ filter, filtered }: { filter: Filter; filtered: boolean }) {
  const [draft, setDraft] = useState(() => draftOf(filter));
  // The back button, or a link in an entry. A later effect would undo what was typed since the last frame.
  useLayoutEffect(() => setDraft(draftOf(filter)), [filter]);
  const set = (name: FilterName) => (value: string) => setDraft({ ...draft, [name]: value });
  const apply = (times: Filter = {}) => navigate(addressOf({ ...filterOf(draft, filter), ...times }));
  const since = (length: number) => apply({ from: new Date(serverNow() - length).toISOString(), to: "" });
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        apply();
      }}
    >
      <div class="row" role="group" aria-label="Ranges">
        {ranges.map(([name, length]) => (
          <Button key={name} onClick={() => since(length)}>
            {name}
          </Button>
        ))}
      </div>
      <div class="filter-fields">
        <MomentField label="From" value={draft.from} onChange={set("from")} />
        <MomentField label="Until before" value={draft.to} onChange={set("to")} />
        <Suggesting label="Action" value={draft.action} onChange={set("action")} values={actions} />
        <Suggesting label="Outcome" value={draft.outcome} onChange={set("outcome")} values={outcomes} />
        <TextField label="Who (user or key ID)" value={draft.actor_id ?? ""} onInput={set("actor_id")} {...anyText} />
        <TextField label="Object ID" value={draft.target_id ?? ""} onInput={set("target_id")} {...anyText} />
        <div class="row">
          <Button kind="primary" type="submit" icon="search">
            Show
          </Button>
          {filtered ? (
            <Button kind="plain" icon="close" onClick={() => navigate(addressOf({}))}>
              Clear
            </Button>
          ) : null}
        </div>
      </div>
    </form>
  );
}

const anyText = { placeholder: "Any", mono: true };

function MomentField(props: { label: string; value: string | undefined; onChange: (value: string) => void }) {
  const { label, value, onChange } = props;
  return (
    <Field label={label}>
      {(control) => (
        <input
          {...control}
          class="input"
          type="datetime-local"
          value={value ?? ""}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A field with suggestions. It also takes other values. */
function Suggesting(props: {
  label: string;
  value: string | undefined;
  onChange: (value: string) => void;
  values: string[];
}) {
  const { label, value = "", onChange, values } = props;
  return (
    <Field label={label}>
      {(control) => (
        <>
          <input
            {...control}
            class="input mono"
            list={`${control.id}-list`}
            value={value}
            placeholder="Any"
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => onChange(event.currentTarget.value)}
          />
          <datalist id={`${control.id}-list`}>
            {values.map((known) => (
              <option key={known} value={known} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
