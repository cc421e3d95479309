import type { Agent } from "@agents.example/client/schema";
import { useEffect, useRef } from "preact/hooks";
import { useReadOnly } from "../account";
import type { Live } from "../api/live";
import { href, useRoute, useTitle } from "../router";
import { LinkButton } from "../ui/button";
import { Following } from "../ui/feedback";
import { AgentHeader } from "./header";
import { Receipt, useDeletion } from "./receipt";
import { TabBar, tabs } from "./tabs";
import { isGone, useAgent } from "./use-agent";

/** Everything about one agent. */
export function AgentPage({ id }: { id: string }) {
  const segment = useRoute().segments[2] ?? "";
  const live = useAgent(id);
  const tab = tabs.find((known) => known.segment === segment);
  useTitle([isGone(live) ? "No agent" : (live.data?.name ?? "Agent"), segment === "" ? "" : tab?.name]
    .filter(Boolean).join(" · "));
  if (isGone(live)) {
    return <Gone id={id} live={live} />;
  }
  const Content = tab?.content;
  return (
    <>
      {live.data === undefined ? <h1 tabIndex={-1}>Agent</h1> : null}
      <Following live={live} what="the agent">
        {(agent) => (
          <>
            <AgentHeader agent={agent} />
            <TabBar id={id} current={segment} />
            {Content === undefined ? <UnknownTab /> : <Content key={segment} agent={agent} />}
          </>
        )}
      </Following>
    </>
  );
}

function UnknownTab() {
  return (
    <div class="card empty">
      <h2>The agent’s page has no such part</h2>
      <p class="quiet">The address may be mistyped. Choose one of the parts above.</p>
    </div>
  );
}

/** Stands for an agent that was deleted while the page was open, or that never existed. */
function Gone({ id, live }: { id: string; live: Live<Agent> }) {
  return useReadOnly() === undefined ? (
    <GoneForAdmin id={id} name={live.data?.name} />
  ) : (
    <Deleted name={live.data?.name} />
  );
}

/** Also shows the receipt, which is kept longer than the agent. */
function GoneForAdmin({ id, name }: { id: string; name: string | undefined }) {
  const deletion = useDeletion(id);
  return (
    <div class="stack">
      <Deleted name={name ?? deletion.data?.name} />
      <Receipt id={id} />
    </div>
  );
}

function Deleted({ name }: { name: string | undefined }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []); // what had focus is gone
  return (
    <div class="card empty">
      <h1 ref={heading} tabIndex={-1}>{name === undefined ? "There is no such agent" : `“${name}” is deleted`}</h1>
      <p class="quiet">
        {name === undefined
          ? "It was deleted, or it belongs to another organization, or the address is mistyped."
          : "Its pod, volume, secrets and address are gone, and it no longer counts against your plan."}
      </p>
      <LinkButton href={href(["agents"])} icon="agents">
        Go to the agents
      </LinkButton>
    </div>
  );
}
