import { useMemo } from "preact/hooks";
import { href, useRoute } from "../router";

/** The filters of the audit log. Their names are those of the API's query. */
export const filterNames = ["from", "to", "actor_id", "action", "target_id", "outcome"] as const;

export type FilterName = (typeof filterNames)[number];

export type Filter = Partial<Record<FilterName, string>>;

/** The filter in the page's address, so that a link leads to the same entries. */
export function useFilter(): Filter {
  const { query } = useRoute();
  const form = query.toString();
  return useMemo(() => {
    const filter: Filter = {};
    for (const name of filterNames) {
      const value = query.get(name);
      if (value !== null && value !== "") {
        filter[name] = value;
      }
    }
    return filter;
  }, [form]);
}

export const addressOf = (filter: Filter): string => href(["audit-log"], filter);

/** The time of an input of the type datetime-local, as the API takes it; "" for no time. */
export function toMoment(local: string): string {
  const time = new Date(local);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString();
}

/** A time of the API for an input of the type datetime-local, in the viewer's zone; "" for no time. */
export function toLocal(moment: string | undefined): string {
  const time = new Date(moment ?? "");
  if (Number.isNaN(time.getTime())) {
    return "";
  }
  const shifted = new Date(time.getTime() - time.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}
