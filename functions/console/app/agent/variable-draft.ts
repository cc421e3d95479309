import type { Agent, PutSecretsRequest, SecretChanges, ValidationError } from "@agents.example/client/schema";
import { type CallError, violationsAt } from "../api/errors";
import { call } from "../api/client";
import { putLive } from "../api/live";
import type { Change } from "../api/submit";
import { reservedText } from "../agents/reserved";
import { isSecret } from "../agents/secretlike";
import { sentenceOf } from "../agents/wrong";
import { agentPath } from "./paths";
import { type InjectDraft, injectOf } from "./variable-inject";

/** A variable that a person sets. Its value is only in memory, and only until the service has it. */
export interface Row {
  /** Tells rows apart. */
  id: number;
  key: string;
  value: string;
  /** Whether the person wants it to be a secret. */
  secret: boolean;
  /** The requests to which the value is added, if the agent does not get it. */
  inject?: InjectDraft | undefined;
}

/** How many secrets one request may set. */
const maxSecrets = 20;

const keyForm = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Why a row must be a secret; undefined if the person decides. */
export function mustBeSecret(agent: Agent, { key, value, inject }: Row): string | undefined {
  if (agent.env_vars[key] === "gsm") {
    return `${key} is a secret.`;
  }
  if (inject !== undefined) {
    return "The secret store keeps it.";
  }
  return isSecret(key, value) ? "It looks like a secret, so the secret store keeps it." : undefined;
}

export const isSecretRow = (agent: Agent, row: Row): boolean => row.secret || mustBeSecret(agent, row) !== undefined;

/** Rows with a name or a value. */
export const filled = (rows: Row[]): Row[] => rows.filter(({ key, value }) => key !== "" || value !== "");

/** What is wrong with rows, by their id. These rules need no answer of the service. */
export function check(agent: Agent, rows: Row[]): Map<number, string[]> {
  const wrong = new Map<number, string[]>();
  const seen = new Set<string>();
  for (const row of filled(rows)) {
    const reserved = reservedText(row.key);
    if (row.key === "") {
      wrong.set(row.id, ["Enter a name for this value."]);
    } else if (!keyForm.test(row.key)) {
      wrong.set(row.id, ["Use letters, digits and underscores, and no digit at the start."]);
    } else if (reserved !== undefined) {
      wrong.set(row.id, [reserved]);
    } else if (seen.has(row.key)) {
      wrong.set(row.id, ["This name is already used above."]);
    } else if (row.value === "" && isSecretRow(agent, row)) {
      wrong.set(row.id, ["A secret needs a value. To remove it, delete it in the list."]);
    } else if (row.inject?.hosts.trim() === "") {
      wrong.set(row.id, ["Name the hosts whose requests get the value."]);
    }
    seen.add(row.key);
  }
  return wrong;
}

/** The fields of requests that have something for each row. */
const valueFields = ["env_vars", "secrets", "inject"];

/** What the service found wrong, by row. */
export function refused(error: CallError | undefined, rows: Row[]): Map<number, string[]> {
  const wrong = new Map<number, string[]>();
  for (const { id, key } of rows) {
    const found = valueFields.flatMap((field) => violationsAt(error, field, key));
    if (key !== "" && found.length > 0) {
      wrong.set(id, found.map(sentenceOf));
    }
  }
  return wrong;
}

/** An error without the violations that rows show. */
export function withoutShown(error: CallError, rows: Row[]): CallError {
  const isShown = ({ loc }: ValidationError) =>
    valueFields.includes(String(loc[1])) && rows.some(({ key }) => key !== "" && key === loc[2]);
  const shown = error.violations.filter(isShown).length;
  if (shown === 0) {
    return error;
  }
  const others = error.violations.filter((violation) => !isShown(violation));
  const text = shown === 1 ? "One value needs a change." : `${shown} values need a change.`;
  return error.with(text, others);
}

/**
 * Saves rows: plain variables with one request, and secrets with one for each twenty of them. onSaved is called with
 * the rows that the service has, so that only the others are sent again after a failure.
 */
export async function save(
  agent: Agent,
  rows: Row[],
  intent: string,
  onSaved: (rows: Row[]) => void,
): Promise<void> {
  const wanted = filled(rows);
  const plain = wanted.filter((row) => !isSecretRow(agent, row));
  const secrets = wanted.filter((row) => isSecretRow(agent, row));
  if (plain.length > 0) {
    await setPlain(agent.id, valuesOf(plain), `${intent}-plain`);
    onSaved(plain);
  }
  for (let i = 0; i < secrets.length; i += maxSecrets) {
    const some = secrets.slice(i, i + maxSecrets);
    // The first row makes the intent of a repeat the same, whatever was saved before.
    await setSecrets(agent.id, { secrets: valuesOf(some), ...injectsOf(some) }, `${intent}-${some[0]?.id ?? 0}`);
    onSaved(some);
  }
}

/** Stands for the values in a rehearsal, so that what a person types leaves the page only when they save it. */
const placeholder = "rehearsal";

/** What to rehearse before rows are saved: one of their requests, because all have the same effect on the agent. */
export function rehearsed(agent: Agent, rows: Row[]): Change | undefined {
  const wanted = filled(rows);
  const plain = wanted.filter((row) => !isSecretRow(agent, row));
  const values = (some: Row[]) => Object.fromEntries(some.slice(0, maxSecrets).map(({ key }) => [key, placeholder]));
  if (plain.length > 0) {
    return { path: agentPath(agent.id), method: "PATCH", body: { env_vars: values(plain) } };
  }
  const path = `${agentPath(agent.id)}/secrets`;
  const body = { secrets: values(wanted), ...injectsOf(wanted.slice(0, maxSecrets)) };
  return wanted.length === 0 ? undefined : { path, method: "PUT", body };
}

/** The requests that get the values of rows, if there are any. */
function injectsOf(rows: Row[]): Pick<PutSecretsRequest, "inject"> {
  const injects = rows.flatMap(({ key, inject }) => (inject === undefined ? [] : [[key, injectOf(inject)] as const]));
  return injects.length === 0 ? {} : { inject: Object.fromEntries(injects) };
}

const valuesOf = (rows: Row[]): Record<string, string> =>
  Object.fromEntries(rows.map(({ key, value }) => [key, value]));

/** Changes plain variables. Null removes one. */
export async function setPlain(id: string, values: Record<string, string | null>, intent: string): Promise<void> {
  const body = { env_vars: values };
  const answer = await call<Agent>(agentPath(id), { method: "PATCH", body, intent });
  putLive(agentPath(id), answer.data);
}

async function setSecrets(id: string, body: PutSecretsRequest, intent: string): Promise<void> {
  await call<SecretChanges>(`${agentPath(id)}/secrets`, { method: "PUT", body, intent });
}
