import type { Organization } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { draftOf, modeText, RulesFields, RulesLists, rulesOf } from "../agent/egress-fields";
import { call } from "../api/client";
import { useKnown } from "../api/known";
import { putLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { SubmitFailure } from "../ui/submit-failure";
import { organizationPath } from "./paths";

/** What new agents of the organization may reach. */
export function EgressDefault({ organization }: { organization: Organization }) {
  const unavailable = useReadOnly();
  const [asking, setAsking] = useState(false);
  const { egress } = organization;
  return (
    <section class="card" aria-label="Egress of new agents">
      <div class="head">
        <h2>Egress of new agents</h2>
        <span class={`badge tone-${egress.mode === "open" ? "idle" : "good"}`}>{modeText(egress.mode)}</span>
      </div>
      <div class="body stack">
        <p>
          {egress.mode === "open"
            ? "New agents reach every host of the internet, on the ports of their plan."
            : "New agents reach the hosts on this list, on the ports 80 and 443, and nothing else."}{" "}
          Admins change that for each agent, in its settings. Agents that exist keep what they have.
        </p>
        <RulesLists egress={egress} />
        <div class="row">
          <Button unavailable={unavailable} onClick={() => setAsking(true)}>
            Change the default
          </Button>
        </div>
        {asking ? <DefaultDialog organization={organization} onClose={() => setAsking(false)} /> : null}
      </div>
    </section>
  );
}

function DefaultDialog({ organization, onClose }: { organization: Organization; onClose: () => void }) {
  const [opened] = useState(draftOf(organization.egress));
  const [draft, setDraft] = useState(opened);
  const rulesNow = (now: Organization) => rulesOf(draftOf(now.egress));
  const isMade = useKnown(
    rulesNow(organization),
    "What new agents reach was changed by someone else while you looked at it.",
  );
  const submit = useSubmit(async () => {
    const egress = rulesOf(draft);
    const { data: now, etag } = await call<Organization>(organizationPath);
    const headers = etag === null ? {} : { "If-Match": etag };
    const changed = isMade(rulesNow(now), egress)
      ? now
      : (await call<Organization>(organizationPath, { method: "PATCH", body: { egress }, headers })).data;
    putLive(organizationPath, changed);
    toast("What new agents reach was changed.");
    onClose();
  });
  return (
    <Dialog
      title="What may new agents reach?"
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
      <SubmitFailure submit={submit} title="What new agents reach was not changed" retry="submit" />
    </Dialog>
  );
}
