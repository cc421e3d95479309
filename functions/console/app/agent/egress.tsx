import type { Agent } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { useKnown } from "../api/known";
import { putLive, refreshLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { SubmitFailure } from "../ui/submit-failure";
import { changeAgent } from "./change";
import { draftOf, modeText, RulesFields, RulesLists, rulesOf } from "./egress-fields";
import { EgressLogCard, egressLogPath } from "./egress-log";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";

/** Which hosts the agent may reach, and which it tried. */
export function Egress({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [asking, setAsking] = useState(false);
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  const open = agent.egress.mode === "open";
  return (
    <>
      <section class="card" aria-label="Egress">
        <div class="head">
          <h2>Egress</h2>
          <span class={`badge tone-${open ? "idle" : "good"}`}>{modeText(agent.egress.mode)}</span>
        </div>
        <div class="body stack">
          <p>
            {open
              ? "The agent reaches every host of the internet, on the ports of its plan. With a list of hosts, what " +
                "it knows cannot go elsewhere."
              : "The agent reaches the hosts on its list, on the ports 80 and 443, and nothing else. Secrets can " +
                "stay outside the agent: they are added to its requests to such hosts."}
          </p>
          <RulesLists egress={agent.egress} />
          <div class="row">
            <Button onClick={() => setAsking(true)} unavailable={unavailable}>
              Change what it reaches
            </Button>
          </div>
          {asking ? <EgressDialog agent={agent} onClose={() => setAsking(false)} /> : null}
        </div>
      </section>
      {readOnly === undefined ? <EgressLogCard agent={agent} unavailable={unavailable} /> : null}
    </>
  );
}

function EgressDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const [opened] = useState(draftOf(agent.egress));
  const [draft, setDraft] = useState(opened);
  const body = { egress: rulesOf(draft) };
  const rulesNow = (now: Agent) => rulesOf(draftOf(now.egress));
  const isMade = useKnown(
    rulesNow(agent),
    "What the agent reaches was changed by someone else while you looked at it.",
  );
  const submit = useSubmit(async () => {
    const bodyOf = (now: Agent) => (isMade(rulesNow(now), body.egress) ? undefined : body);
    putLive(agentPath(agent.id), await changeAgent(agent.id, bodyOf));
    toast("What the agent reaches was changed.");
    refreshLive(egressLogPath(agent.id));
    onClose();
  });
  return (
    <Dialog
      title="What may it reach?"
      onClose={onClose}
      typed={JSON.stringify(draft) !== JSON.stringify(opened)}
      onSubmit={submit.send}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          Save
        </Button>
      }
    >
      <RulesFields draft={draft} onChange={setDraft} error={submit.error} />
      <p class="quiet">
        {draft.mode !== agent.egress.mode
          ? "Saving replaces the pod of a running agent: it does not answer for some seconds."
          : draft.mode === "open"
            ? "The lists count only with allowed hosts."
            : "The lists change within seconds, without a restart. Open connections to hosts that are no longer " +
              "allowed are closed."}
      </p>
      {submit.busy || submit.error !== undefined ? null : (
        <Forecast change={{ path: agentPath(agent.id), method: "PATCH", body }} asOf={agent.status} />
      )}
      <SubmitFailure submit={submit} title="What the agent reaches was not changed" retry="submit" />
    </Dialog>
  );
}
