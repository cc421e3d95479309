import type { AgentEgress } from "@agents.example/client/schema";
import { draftOf, RulesFields } from "../agent/egress-fields";
import type { CallError } from "../api/errors";
import { Button } from "../ui/button";
import { type Draft, edit } from "./draft";

/** What the new agent reaches from its first second, if the person does not leave that to the organization. */
export function Reach(props: { rules: Draft["egress"]; preset: AgentEgress; error: CallError | undefined }) {
  const { rules, preset, error } = props;
  return rules === undefined ? (
    <div class="row">
      <Button icon="plus" onClick={() => edit({ egress: { ...draftOf(preset), mode: "allow_list" } })}>
        Choose the hosts that it reaches
      </Button>
    </div>
  ) : (
    <>
      <RulesFields draft={rules} onChange={(egress) => edit({ egress })} error={error} />
      <div class="row">
        <Button onClick={() => edit({ egress: undefined })}>Leave that to the organization</Button>
      </div>
    </>
  );
}
