import type { Agent } from "@agents.example/client/schema";
import { useReadOnly } from "../account";
import { CopyButton } from "../ui/copy";
import { formatBytes, formatCores, planName } from "../ui/format";
import { isAsleep } from "../ui/status";
import { Time } from "../ui/time";
import { Awake } from "./awake";
import { Health } from "./health";
import { CopiedFrom, LackedSecrets } from "./copied";
import { NewVersion } from "./image";
import { Now } from "./now";
import { Receipt } from "./receipt";
import { Timeline } from "./timeline";

/** What the agent is doing now, how it got there, and where it is. */
export function Overview({ agent }: { agent: Agent }) {
  const admin = useReadOnly() === undefined;
  return (
    <div class="overview">
      <div class="stack">
        <Now agent={agent} />
        <LackedSecrets agent={agent} />
        <NewVersion agent={agent} />
        {agent.status === "deleting" && admin ? <Receipt id={agent.id} /> : null}
        {agent.status === "running" || agent.status === "error" ? <Health agent={agent} /> : null}
        {agent.sleep.after_seconds === null && !isAsleep(agent) ? null : <Awake agent={agent} />}
        <Timeline agent={agent} />
      </div>
      <div class="stack">
        <Addresses agent={agent} />
        <Size agent={agent} />
      </div>
    </div>
  );
}

function Addresses({ agent }: { agent: Agent }) {
  return (
    <section class="card" aria-label="Addresses">
      <div class="head">
        <h2>Addresses</h2>
      </div>
      <div class="body">
        {agent.dashboard_url === null && agent.api_url === null ? (
          <p class="quiet">The agent gets its addresses when the stage “Address” is done.</p>
        ) : (
          <dl class="addresses">
            <Address name="Dashboard" url={agent.dashboard_url} />
            <Address name="API" url={agent.api_url} />
          </dl>
        )}
      </div>
    </section>
  );
}

function Address({ name, url }: { name: string; url: string | null }) {
  return url === null ? null : (
    <>
      <dt>{name}</dt>
      <dd>
        <code>{url}</code>
        <CopyButton text={url} what={`address of the ${name === "API" ? name : name.toLowerCase()}`} />
      </dd>
    </>
  );
}

function Size({ agent }: { agent: Agent }) {
  const { plan_limits: limits, sandbox_enabled: sandbox } = agent.config;
  return (
    <section class="card" aria-label="Size and place">
      <div class="head">
        <h2>Size and place</h2>
      </div>
      <div class="body">
        <dl class="facts">
          <dt>Plan</dt>
          <dd>{planName(agent.resource_plan)}</dd>
          <dt>CPU</dt>
          <dd>up to {formatCores(limits.cpu_cores)}</dd>
          <dt>Memory</dt>
          <dd>up to {formatBytes(limits.memory_bytes)}</dd>
          <dt>Volume</dt>
          <dd>{formatBytes(limits.storage_bytes)}</dd>
          <dt>Region</dt>
          <dd>
            {agent.region}, {agent.cloud === "gcp" ? "Google Cloud" : agent.cloud}
          </dd>
          <dt>Sandbox</dt>
          <dd>{sandbox ? "on" : "off"}</dd>
          <dt>Namespace</dt>
          <dd>
            <code>{agent.namespace}</code>
          </dd>
          <dt>Created</dt>
          <dd>
            <Time value={agent.created_at} />
          </dd>
          <CopiedFrom agent={agent} />
          <dt>ID</dt>
          <dd>
            <code>{agent.id}</code>
          </dd>
          <dt>Last change</dt>
          <dd>
            <Time value={agent.updated_at} />
          </dd>
        </dl>
      </div>
    </section>
  );
}
