import type { Agent } from "@agents.example/client/schema";
import { useReadOnly } from "../account";
import { Notice } from "../ui/feedback";
import { Examples } from "./examples";
import { Reveal } from "./reveal";
import { Rotation } from "./rotation";

/** The user name, password and key of the agent's own dashboard and API. */
export function CredentialsTab({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  if (readOnly !== undefined) {
    return (
      <Notice tone="idle" title="Only admins can see and change credentials">
        They open the agent’s dashboard and API to whoever has them. Ask an admin of the organization if you need them.
      </Notice>
    );
  }
  if (agent.dashboard_username === null) {
    return (
      <Notice tone="busy" title="The agent has no credentials yet">
        They are created at the provisioning stage “Identity and credentials”. This page changes by itself.
      </Notice>
    );
  }
  return (
    <div class="stack">
      <Reveal agent={agent} />
      <Examples agent={agent} />
      <Rotation agent={agent} />
    </div>
  );
}
