import type { Agent } from "@agents.example/client/schema";
import { useEffect, useState } from "preact/hooks";
import { type Option, Select, TextField } from "../ui/field";
import { planName } from "../ui/format";
import { descendsFirst, type Filter, plansOf, regionsOf, type SortKey } from "./filter";

export type ChangeFilter = (changed: Partial<Filter>, options?: { replace?: boolean }) => void;

/** The search waits for a pause in typing, so that the history does not get each letter. */
const typing = 150;

export function Toolbar({ agents, filter, onChange }: { agents: Agent[]; filter: Filter; onChange: ChangeFilter }) {
  const plans = plansOf(agents);
  const regions = regionsOf(agents);
  return (
    <div class="agents-toolbar">
      <Search value={filter.search} onChange={(search) => onChange({ search }, { replace: true })} />
      {plans.length > 1 || filter.plan !== "" ? (
        <Select
          label="Plan"
          value={filter.plan}
          options={options("All plans", plans, filter.plan, planName)}
          onChange={(plan) => onChange({ plan })}
        />
      ) : null}
      {regions.length > 1 || filter.region !== "" ? (
        <Select
          label="Region"
          value={filter.region}
          options={options("All regions", regions, filter.region, (region) => region)}
          onChange={(region) => onChange({ region })}
        />
      ) : null}
      <div class="narrow-only">
        <Select
          label="Sort by"
          value={`${filter.sort} ${filter.descending ? "desc" : "asc"}`}
          options={orders}
          onChange={(value) => {
            const [sort = "created", order] = value.split(" ");
            onChange({ sort: sort as SortKey, descending: order === "desc" });
          }}
        />
      </div>
    </div>
  );
}

const orders: Option[] = [
  { value: "created desc", label: "Newest first" },
  { value: "created asc", label: "Oldest first" },
  { value: "name asc", label: "Name, A to Z" },
  { value: "name desc", label: "Name, Z to A" },
  { value: "status asc", label: "Status, errors first" },
  { value: "status desc", label: "Status, errors last" },
];

/** The order after a click on a column: the other way around, or the column's usual order. */
export const nextOrder = (filter: Filter, key: SortKey): Partial<Filter> => ({
  sort: key,
  descending: filter.sort === key ? !filter.descending : descendsFirst(key),
});

function options(all: string, values: string[], chosen: string, name: (value: string) => string): Option[] {
  const known = chosen === "" || values.includes(chosen) ? values : [...values, chosen];
  return [{ value: "", label: all }, ...known.map((value) => ({ value, label: name(value) }))];
}

function Search({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(value);
  const [sent, setSent] = useState(value);
  if (value !== sent) {
    setSent(value); // the back button, or a cleared filter
    setText(value);
  }
  useEffect(() => {
    if (text === sent) {
      return;
    }
    const timer = setTimeout(() => {
      setSent(text);
      onChange(text);
    }, typing);
    return () => clearTimeout(timer);
  }, [text, sent]);
  return <TextField label="Search" type="search" value={text} onInput={setText} placeholder="Search name or ID" />;
}
