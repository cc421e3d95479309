import type { AuditChange } from "@agents.example/client/schema";
import { listText, planName } from "../ui/format";
import { fieldText } from "./fields";

/** What happened to the member of a list, such as a variable: its value is not shown. */
const verbs = ["set", "changed", "removed"];

const member = /^(?:env_vars|secrets|files|schedules|snapshots)\./;

const time = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** A change of a field as a sentence without its full stop. */
export function changeText({ field, old, new: next }: AuditChange): string {
  const name = capital(fieldText(field));
  if (next !== null && verbs.includes(next) && old === null) {
    return `${name} ${next}`;
  }
  return old === null
    ? `${name}: ${valueText(field, next)}`
    : `${name}: ${valueText(field, old)} → ${valueText(field, next)}`;
}

/** A value of a field in words. */
export function valueText(field: string, value: string | null): string {
  if (value === null || value === "") {
    return "none";
  }
  switch (true) {
    case value === "true" || value === "false":
      return value === "true" ? "on" : "off";
    case field === "resource_plan" || field === "plan":
      return planName(value);
    case /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value):
      return time.format(new Date(value));
    default:
      return value;
  }
}

/** What a call changed, as a title: "Variables A and B set", or "Agent changed" with more than one kind of change. */
export function changesTitle(changes: AuditChange[]): { title: string; details: string[] } {
  const [first] = changes;
  if (first === undefined) {
    return { title: "Agent changed", details: [] };
  }
  if (changes.length === 1) {
    const title = first.field === "name" ? `Renamed to “${first.new ?? ""}”` : changeText(first);
    return { title, details: [] };
  }
  const list = /^(\w+)\./.exec(first.field)?.[1] ?? "";
  if (member.test(first.field) && changes.every(({ field, new: next }) =>
    field.startsWith(`${list}.`) && next === first.new)) {
    const [kind = ""] = fieldText(first.field).split(" ");
    const names = changes.map(({ field }) => field.slice(list.length + 1));
    return { title: `${capital(kind)}s ${listText(names)} ${first.new ?? "changed"}`, details: [] };
  }
  return { title: "Agent changed", details: changes.map(changeText) };
}

const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
