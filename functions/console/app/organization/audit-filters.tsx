import { useLayoutEffect, useState } from "preact/hooks";
import { serverNow } from "../api/clock";
import { actionNames, actionText } from "../events/action-text";
import { outcomeText, refusals } from "../events/outcome-text";
import { navigate } from "../router";
import { Button } from "../ui/button";
import { Field, type Option, Select, TextField } from "../ui/field";
import { Icon } from "../ui/icons";
import { addressOf, type Filter, type FilterName, toLocal, toMoment } from "./audit-query";

const hour = 3_600_000;

const ranges: [string, number][] = [
  ["Last hour", hour],
  ["Last 24 hours", 24 * hour],
  ["Last 7 days", 7 * 24 * hour],
  ["Last 30 days", 30 * 24 * hour],
];

const named = (values: string[], chosen: string, name: (value: string) => string): Option[] => {
  const known = chosen === "" || values.includes(chosen) ? values : [chosen, ...values];
  return [{ value: "", label: "Any" }, ...known.map((value) => ({ value, label: name(value) }))];
};

/** Narrows the log: choices, what is chosen, and the fields for the rest. Names are those of callers, by their ID. */
export function Filters({ filter, names }: { filter: Filter; names: Map<string, string> }) {
  const { action = "", outcome = "", from = "", to = "" } = filter;
  const set = (changed: Filter) => navigate(addressOf({ ...filter, ...changed }));
  const times = [
    { value: "", label: "Any" },
    ...(from === "" && to === "" ? [] : [{ value: "chosen", label: rangeText(filter) }]),
    ...ranges.map(([label, length]) => ({ value: String(length), label })),
  ];
  return (
    <section class="card filters" aria-label="Filter">
      <div class="filter-choices">
        <Select
          label="Time"
          value={from === "" && to === "" ? "" : "chosen"}
          options={times}
          onChange={(value) =>
            value === "chosen" || set({ from: value === "" ? "" : isoBefore(Number(value)), to: "" })
          }
        />
        <Select
          label="Action"
          value={action}
          options={named(Object.keys(actionNames), action, actionText)}
          onChange={(value) => set({ action: value })}
        />
        <Select
          label="Outcome"
          value={outcome}
          options={named(["succeeded", ...Object.keys(refusals), "begun"], outcome, outcomeText)}
          onChange={(value) => set({ outcome: value })}
        />
      </div>
      <Chosen filter={filter} names={names} />
      <details>
        <summary>More fields</summary>
        <MoreFields filter={filter} />
      </details>
    </section>
  );
}

const isoBefore = (length: number): string => new Date(serverNow() - length).toISOString();

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** A time of a link that is none stays as it is: the service says what is wrong with it. */
function timeText(moment: string): string {
  const time = new Date(moment);
  return Number.isNaN(time.getTime()) ? moment : exact.format(time);
}

function rangeText({ from = "", to = "" }: Filter): string {
  const until = to === "" ? "" : `until ${timeText(to)}`;
  return from === "" ? `U${until.slice(1)}` : `Since ${timeText(from)} ${until}`.trim();
}

/** What is chosen, each with a way to leave it out. */
function Chosen({ filter, names }: { filter: Filter; names: Map<string, string> }) {
  const { from = "", to = "", action, outcome, actor_id: actor, target_id: target } = filter;
  const chips: [string, FilterName[]][] = [
    ...(from === "" && to === "" ? [] : [[rangeText(filter), ["from", "to"]] as [string, FilterName[]]]),
    ...(action ? [[actionText(action), ["action"]] as [string, FilterName[]]] : []),
    ...(outcome ? [[outcomeText(outcome), ["outcome"]] as [string, FilterName[]]] : []),
    ...(actor ? [[`By ${names.get(actor) ?? actor}`, ["actor_id"]] as [string, FilterName[]]] : []),
    ...(target ? [[`About ${names.get(target) ?? target}`, ["target_id"]] as [string, FilterName[]]] : []),
  ];
  if (chips.length === 0) {
    return null;
  }
  return (
    <div class="row" role="group" aria-label="Chosen">
      {chips.map(([text, fields]) => (
        <a key={text} class="chip" href={addressOf(without(filter, fields))}>
          {text}
          <Icon name="close" />
          <span class="visually-hidden"> (leave out)</span>
        </a>
      ))}
      <Button kind="plain" onClick={() => navigate(addressOf({}))}>
        Clear
      </Button>
    </div>
  );
}

const without = (filter: Filter, fields: FilterName[]): Filter =>
  Object.fromEntries(Object.entries(filter).filter(([name]) => !fields.includes(name as FilterName)));

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

function MoreFields({ filter }: { filter: Filter }) {
  const [draft, setDraft] = useState(() => draftOf(filter));
  // The back button, or a link in an entry. A later effect would undo what was typed since the last frame.
  useLayoutEffect(() => setDraft(draftOf(filter)), [filter]);
  const set = (name: FilterName) => (value: string) => setDraft({ ...draft, [name]: value });
  return (
    <form
      class="filter-fields"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        navigate(addressOf(filterOf(draft, filter)));
      }}
    >
      <MomentField label="From" value={draft.from} onChange={set("from")} />
      <MomentField label="Until before" value={draft.to} onChange={set("to")} />
      <TextField label="Who (user or key ID)" value={draft.actor_id ?? ""} onInput={set("actor_id")} {...anyText} />
      <TextField label="Object ID" value={draft.target_id ?? ""} onInput={set("target_id")} {...anyText} />
      <div class="row">
        <Button type="submit" icon="search">
          Show
        </Button>
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
