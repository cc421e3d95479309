import type { Agent } from "@agents.example/client/schema";
import { useAgents } from "../agents/roster-hook";
import { LinkButton } from "../ui/button";
import { Notice } from "../ui/feedback";
import { listText } from "../ui/format";
import { tabHref } from "./paths";

/** Names the secrets that an agent lacks which is a copy, with the way to set them. */
export function LackedSecrets({ agent }: { agent: Agent }) {
  const names = agent.unset_secrets;
  return names.length === 0 || agent.status === "deleting" ? null : (
    <Notice
      tone="warn"
      title={names.length === 1 ? "A secret is not set" : `${names.length} secrets are not set`}
      actions={
        <LinkButton href={tabHref(agent.id, "variables")} icon="key">
          Set {names.length === 1 ? "it" : "them"}
        </LinkButton>
      }
    >
      <p>The agent is a copy, and values of secrets are not copied: {listText(names)}.</p>
    </Notice>
  );
}

/** Where an agent's data comes from, among its facts. */
export function CopiedFrom({ agent }: { agent: Agent }) {
  return agent.clone_of === null ? null : (
    <>
      <dt>Copy of</dt>
      <dd>
        <Source id={agent.clone_of.agent_id} />
      </dd>
    </>
  );
}

/** The agent that was copied. It may be deleted by now. */
function Source({ id }: { id: string }) {
  const found = useAgents().data?.find((agent) => agent.id === id);
  return found === undefined ? <code>{id}</code> : <a href={tabHref(id, "snapshots")}>{found.name}</a>;
}
