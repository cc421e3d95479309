import type { Organization } from "@agents.example/client/schema";
import { useReadOnly } from "../account";
import { call } from "../api/client";
import { putLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { SubmitFailure } from "../ui/submit-failure";
import { organizationPath } from "./paths";

/** Who may enter the containers of the organization's agents. */
export function Containers({ organization }: { organization: Organization }) {
  const unavailable = useReadOnly();
  const on = organization.exec !== "off";
  const submit = useSubmit(async (intent) => {
    const body = { exec: on ? "off" : "admins" };
    const { data } = await call<Organization>(organizationPath, { method: "PATCH", body, intent });
    putLive(organizationPath, data);
    toast(on ? "No one may enter containers now. Open terminals end." : "Admins may enter containers now.", "good");
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
