import { useEffect } from "preact/hooks";
import { identityOf, useMe } from "../account";
import { onSignOut } from "../session/session";
import { useStore } from "../store";
import { Roster, type RosterState } from "./roster";

/** Kept while the person is on other pages, so that the list is there when they return. */
let kept: { who: string; roster: Roster } | undefined;

onSignOut(() => (kept = undefined));

/** The roster of the caller's organization. */
export function useRoster(): Roster {
  const me = useMe();
  const who = identityOf(me);
  if (kept?.who !== who) {
    kept = { who, roster: new Roster() };
  }
  return kept.roster;
}

/** Follows all agents of the organization. */
export function useAgents(): RosterState {
  const roster = useRoster();
  useEffect(() => roster.follow(), [roster]);
  return useStore(roster.state);
}
