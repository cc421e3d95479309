import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import type { ComponentChildren } from "preact";
import { onSignOut } from "../session/session";
import { Store } from "../store";

/** What a new agent begins with: a snapshot of an agent. */
export interface Source {
  agent: Agent;
  snapshot: AgentSnapshot;
  /** What the dialog says about it. */
  facts: ComponentChildren;
}

/** The snapshot of which a person makes an agent. Its dialog is part of the app, not of the page that opens it. */
export const source = new Store<Source | undefined>(undefined);

onSignOut(() => source.set(undefined));
