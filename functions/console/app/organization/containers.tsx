import type { Organization } from "@agents.example/client/schema";
import { useReadOnly } from "../account";
import { putLive } from "../api/live";
import { useChange } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { SubmitFailure } from "../ui/submit-failure";
import { organizationPath } from "./paths";

/** Who may enter the containers of the organization's agents. */
export function Containers({ organization }: { organization: Organization }) {
  const unavailable = useReadOnly();
  const on = organization.exec !== "off";
  const change = { path: organizationPath, method: "PATCH", body: { exec: on ? "off" : "admins" } } as const;
  const submit = useChange<Organization>(change, (changed) => {
    putLive(organizationPath, changed);
    const off = changed.exec === "off";
    toast(off ? "No one may enter containers now. Open terminals end." : "Admins may enter containers now.", "good");
  });
  return (
    <section class="card" aria-label="Terminals and commands">
      <div class="head">
        <h2>Terminals and commands</h2>
        <span class={`badge tone-${on ? "good" : "idle"}`}>{on ? "Admins" : "Off"}</span>
      </div>
      <div class="body stack">
        <p>
          On plans with it, admins run commands, open terminals and copy files in agents’ containers. Each call has
          an entry in the audit log, without its content.
        </p>
        <SubmitFailure submit={submit} title="The setting was not changed" />
        <div class="row">
          <Button icon="lock" busy={submit.busy} unavailable={unavailable} onClick={() => void submit.send()}>
            {on ? "Turn off for everyone" : "Turn on for admins"}
          </Button>
        </div>
      </div>
    </section>
  );
}
