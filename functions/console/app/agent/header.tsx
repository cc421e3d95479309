import type { Agent } from "@agents.example/client/schema";
import { useReadOnly } from "../account";
import { href } from "../router";
import { CopyButton } from "../ui/copy";
import { planName } from "../ui/format";
import { Icon } from "../ui/icons";
import { Status } from "../ui/status";
import { Time } from "../ui/time";
import { Actions } from "./actions";
import { OpenDashboard } from "./dashboard";
import { Name } from "./name";

/** What an agent is, and what one can do with it. It stands above every part of the agent's page. */
export function AgentHeader({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly() !== undefined;
  return (
    <header class="agent-head">
      <a class="way-back" href={href(["agents"])}>
        <Icon name="back" />
        All agents
      </a>
      <div class="page-head">
        <Name agent={agent} />
        <Status agent={agent} />
        <span class="actions">
          <OpenDashboard agent={agent} />
          <Actions agent={agent} />
        </span>
      </div>
      <ul class="agent-facts">
        <li>{planName(agent.resource_plan)} plan</li>
        <li>{agent.region}</li>
        <li>
          Created <Time value={agent.created_at} />
        </li>
        <li class="id">
          <code title="The agent’s ID">{agent.id}</code>
          <CopyButton text={agent.id} what="agent ID" />
        </li>
      </ul>
      {readOnly ? (
        <p class="small quiet">You can look, but not change anything. Only admins of the organization can; ask one.</p>
      ) : null}
    </header>
  );
}
