import type { Agent, CreateAgentRequest } from "@agents.example/client/schema";
import { type CallError, asError } from "../api/errors";
import { call, newIntent } from "../api/client";
import { onSignOut } from "../session/session";
import { Store } from "../store";
import type { RulesDraft } from "../agent/egress-fields";
import { isPasted, nothingPasted, type Pasted } from "./pasted";

export interface Variable {
  /** Tells rows apart. */
  row: number;
  key: string;
  value: string;
}

/** What a person has typed for a new agent, and how far its creation is. */
export interface Draft {
  /** Tells a draft from one that the person began after discarding it. */
  id: number;
  /** The id of the snapshot that the agent begins with; empty for an agent without data. */
  from: string;
  /** The name that the draft began with. */
  given: string;
  name: string;
  /** Empty until the person chooses one. */
  plan: string;
  region: string;
  /** The image, and perhaps its version; empty until the person chooses one. */
  image: string;
  /** Where the archive is that the agent begins with; empty for none. */
  archive: string;
  /** What the agent reaches; undefined for what the organization sets for new agents. */
  egress: RulesDraft | undefined;
  variables: Variable[];
  pasted: Pasted;
  /** The Idempotency-Key of the last attempt, and what it asked for. */
  intent: { id: string; body: string } | undefined;
  sending: boolean;
  /** Why the last attempt failed, and what it asked for. */
  failure: { error: CallError; sent: CreateAgentRequest } | undefined;
}

const empty: Omit<Draft, "id"> = {
  from: "",
  given: "",
  name: "",
  plan: "",
  region: "",
  image: "",
  archive: "",
  egress: undefined,
  variables: [],
  pasted: nothingPasted,
  intent: undefined,
  sending: false,
  failure: undefined,
};

let lastID = 0;

const begin = (part: Partial<Draft> = {}): Draft => ({ ...empty, ...part, id: ++lastID });

/**
 * The draft of the new agent. It outlives its dialog, so that a dialog that is closed by accident loses nothing. It is
 * only in memory, because it has secrets.
 */
export const draft = new Store<Draft>(begin());

let lastRow = 0;

export const edit = (changed: Partial<Draft>): void => draft.set({ ...draft.value, ...changed });

/** The drafts of agents with other beginnings. */
const parked = new Map<string, Draft>();

/** Turns to the draft of the agent that begins with a snapshot, or with no data. The draft before it is kept. */
export function turnTo(from: string, name: string): void {
  if (draft.value.from !== from) {
    parked.set(draft.value.from, draft.value);
    draft.set(parked.get(from) ?? begin({ from, given: name, name }));
  }
}

export function discardDraft(): void {
  const { from, given } = draft.value;
  draft.set(begin({ from, given, name: given }));
}

onSignOut(() => {
  parked.clear();
  draft.set(begin());
});

export const isTyped = ({ name, given, archive, egress, variables, pasted }: Draft): boolean =>
  name !== given || archive !== "" || egress !== undefined || variables.length > 0 || isPasted(pasted);

/** Adds variables. Those with a known key replace its value. */
export function addVariables(added: { key: string; value: string }[]): void {
  const rows = draft.value.variables.filter(({ key, value }) => key !== "" || value !== "");
  for (const { key, value } of added) {
    const known = rows.findIndex((row) => row.key === key && key !== "");
    lastRow++;
    if (known >= 0) {
      rows[known] = { row: rows[known]?.row ?? lastRow, key, value };
    } else {
      rows.push({ row: lastRow, key, value });
    }
  }
  edit({ variables: rows });
}

export const changeVariable = (row: number, changed: Partial<Variable>): void =>
  edit({ variables: draft.value.variables.map((one) => (one.row === row ? { ...one, ...changed } : one)) });

export const removeVariable = (row: number): void =>
  edit({ variables: draft.value.variables.filter((one) => one.row !== row) });

/**
 * Creates the agent. A repeat of the same request has the same Idempotency-Key, so that it never creates another agent.
 * It returns undefined after a failure, which is then in the draft.
 */
export async function create(request: CreateAgentRequest): Promise<Agent | undefined> {
  const body = JSON.stringify(request);
  const { intent: last } = draft.value;
  const intent = last?.body === body ? last : { id: newIntent(), body };
  edit({ intent, sending: true, failure: undefined });
  const sent = draft.value;
  try {
    const answer = await call<Agent>("/api/v1/agents", { method: "POST", body: request, intent: intent.id });
    end(sent, undefined);
    return answer.data;
  } catch (error) {
    end(sent, { sending: false, failure: { error: asError(error), sent: request } });
    return undefined;
  }
}

/**
 * Discards the draft that was sent, or says why it failed. The person may have turned to another one. What was typed
 * since then stays.
 */
function end(sent: Draft, failed: Partial<Draft> | undefined): void {
  const shown = draft.value.from === sent.from;
  const now = shown ? draft.value : parked.get(sent.from);
  if (now?.id !== sent.id) {
    return;
  }
  const { from, given } = now;
  const rest = now === sent ? begin({ from, given, name: given }) : { ...now, sending: false, intent: undefined };
  const next = failed === undefined ? rest : { ...now, ...failed };
  shown ? draft.set(next) : parked.set(from, next);
}
