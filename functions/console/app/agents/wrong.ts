import type { CreateAgentRequest, ValidationError } from "@agents.example/client/schema";
import { type CallError, violationsAt } from "../api/errors";
import type { Draft, Variable } from "./draft";
import { reservedText } from "./reserved";

/** What is wrong with a draft, by field. */
export interface Wrong {
  name: string[];
  plan: string[];
  region: string[];
  image: string[];
  archive: string[];
  /** By the row of the variable, and "all" for the variables together. */
  variables: Map<string | number, string[]>;
}

export const isWrong = ({ name, plan, region, image, archive, variables }: Wrong): boolean =>
  name.length + plan.length + region.length + image.length + archive.length + variables.size > 0;

/** The rules that need no answer of the service. */
export function check(draft: Draft, plan: string): Wrong {
  const variables = new Map<string | number, string[]>();
  const seen = new Set<string>();
  for (const { row, key, value } of draft.variables) {
    if (key === "" && value === "") {
      continue;
    }
    const reserved = reservedText(key);
    if (key === "") {
      variables.set(row, ["Enter a name for this value."]);
    } else if (seen.has(key)) {
      variables.set(row, ["This name is already used above."]);
    } else if (reserved !== undefined) {
      variables.set(row, [reserved]);
    }
    seen.add(key);
  }
  return {
    name: draft.name.trim() === "" ? ["Enter a name."] : [],
    plan: plan === "" ? ["Choose a size."] : [],
    region: [],
    image: [],
    archive: [],
    variables,
  };
}

/** What the service found wrong in the values that are still there. */
export function refused(error: CallError, sent: CreateAgentRequest, draft: Draft): Wrong {
  const variables = new Map<string | number, string[]>();
  for (const { row, key, value } of draft.variables) {
    const found = sent.env_vars?.[key] === value ? violationsAt(error, "env_vars", key) : [];
    if (found.length > 0) {
      variables.set(row, found.map(sentenceOf));
    }
  }
  const together = violationsAt(error, "env_vars").filter(({ loc }) => loc.length === 2);
  if (together.length > 0) {
    variables.set("all", together.map(sentenceOf));
  }
  return {
    name: draft.name.trim() === sent.name ? violationsAt(error, "name").map(sentenceOf) : [],
    plan: violationsAt(error, "resource_plan").map(sentenceOf),
    region: violationsAt(error, "region").map(sentenceOf),
    image: violationsAt(error, "image").map(sentenceOf),
    archive: draft.archive.trim() === sent.import_url ? violationsAt(error, "import_url").map(sentenceOf) : [],
    variables,
  };
}

/** The fields of a request that the dialog has. */
const fields = ["name", "resource_plan", "region", "image", "import_url", "egress", "env_vars"];

/** The violations that belong to no field of the dialog. */
export const elsewhere = (error: CallError): ValidationError[] =>
  error.violations.filter(({ loc }) => !fields.includes(String(loc[1])));

/** A violation as a sentence. */
export function sentenceOf({ msg }: ValidationError): string {
  const text = msg.replace(/^Value error, /, "");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** The variables of a request: those with a name. */
export const variablesOf = (variables: Variable[]): Record<string, string> =>
  Object.fromEntries(variables.filter(({ key }) => key !== "").map(({ key, value }) => [key, value]));
