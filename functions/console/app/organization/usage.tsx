import type { Plan, Organization } from "@agents.example/client/schema";
import { useLive } from "../api/live";
import { href, useTitle } from "../router";
import { LinkButton } from "../ui/button";
import { CopyButton } from "../ui/copy";
import { Following, Notice } from "../ui/feedback";
import { formatBytes, formatCores, formatPrice, planName, plural } from "../ui/format";
import { Time } from "../ui/time";
import { Containers } from "./containers";
import { EgressDefault } from "./egress";
import { FeatureSentences } from "./features";
import { Meter } from "./meter";
import { organizationPath, plansPath } from "./paths";

const plansEvery = 300_000;

/** What the organization has, and how much of it is in use. */
export function UsagePage() {
  useTitle("Usage");
  const organization = useLive<Organization>(organizationPath);
  const plans = useLive<Plan[]>(plansPath, { every: plansEvery });
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Usage</h1>
      </div>
      <Following live={organization} what="the usage">
        {(data) => (
          <>
            <InUse organization={data} />
            <Following live={plans} what="the plans">
              {(all) => <Plan plan={all.find((plan) => plan.id === data.plan)} organization={data} />}
            </Following>
            <Containers organization={data} />
            <EgressDefault organization={data} />
          </>
        )}
      </Following>
    </>
  );
}

const largerPlan = <a href={href(["billing"])}>choose a larger plan</a>;
/** What gives back CPU and memory, or what gives back everything else. */
const agentsLink = (byStop: boolean) => <a href={href(["agents"])}>{byStop ? "stop or delete" : "delete"} an agent</a>;

function InUse({ organization: { usage, limits, plan } }: { organization: Organization }) {
  const freeSpace = (byStop: boolean) => (
    <>
      To create another agent, {agentsLink(byStop)} or {largerPlan}.
    </>
  );
  const overKept = usage.agents > limits.agents || usage.storage_bytes > limits.storage_bytes;
  const over = overKept || usage.cpu_cores > limits.cpu_cores || usage.memory_bytes > limits.memory_bytes;
  return (
    <section class="card">
      <div class="head">
        <h2>In use</h2>
      </div>
      <div class="body stack">
        {over ? (
          <Notice tone="warn" title={`The organization uses more than the ${planName(plan)} plan allows`}>
            <p>
              The oldest agents keep running as far as the plan allows. The others are paused, and none can be created
              or started, until the usage fits: {agentsLink(!overKept)} or {largerPlan}.
            </p>
          </Notice>
        ) : null}
        <div class="grid meters">
          <Meter
            label="Agents"
            used={usage.agents}
            limit={limits.agents}
            format={(value) => plural(value, "agent")}
            whenFull={freeSpace(false)}
          />
          <Meter
            label="CPU"
            used={usage.cpu_cores}
            limit={limits.cpu_cores}
            format={formatCores}
            whenFull={freeSpace(true)}
          />
          <Meter
            label="Memory"
            used={usage.memory_bytes}
            limit={limits.memory_bytes}
            format={formatBytes}
            whenFull={freeSpace(true)}
          />
          <Meter
            label="Storage"
            used={usage.storage_bytes}
            limit={limits.storage_bytes}
            format={formatBytes}
            whenFull={freeSpace(false)}
          />
          <Meter
            label="API keys"
            used={usage.api_keys}
            limit={limits.api_keys}
            format={(value) => plural(value, "key")}
            whenFull={
              <>
                To create another key, <a href={href(["api-keys"])}>revoke one</a> that is not used.
              </>
            }
          />
        </div>
        <p class="small quiet">
          An agent counts with the full size of its plan from its creation until it is deleted. A paused agent counts in
          full; a stopped one only with its slot and storage.
        </p>
      </div>
    </section>
  );
}

function Plan({ plan, organization }: { plan: Plan | undefined; organization: Organization }) {
  return (
    <section class="card">
      <div class="head">
        <h2>{planName(organization.plan)} plan</h2>
        {plan === undefined ? null : <span class="quiet">{formatPrice(plan.price_usd_month)}</span>}
        <span class="actions">
          <LinkButton href={href(["billing"])} icon="billing">
            Compare plans
          </LinkButton>
        </span>
      </div>
      <div class="body stack">
        {plan === undefined ? (
          <p class="quiet">This plan is not among those that the service offers.</p>
        ) : (
          <>
            <p>
              Up to {plural(plan.max_agents, "agent")} and {plural(organization.limits.api_keys, "API key")}. The
              largest agent has {formatCores(plan.agent.cpu_cores)}, {formatBytes(plan.agent.memory_bytes)} of memory
              and {formatBytes(plan.agent.storage_bytes)} of storage.
            </p>
            <FeatureSentences features={plan.features} />
            <p class="small quiet">
              An agent may have a smaller plan than its organization. Its own plan decides its ports and daily copies.
            </p>
          </>
        )}
        <dl class="facts">
          <dt>Organization ID</dt>
          <dd class="row">
            <code>{organization.id}</code>
            <CopyButton text={organization.id} what="organization ID" />
          </dd>
          <dt>Created</dt>
          <dd>
            <Time value={organization.created_at} date />
          </dd>
        </dl>
      </div>
    </section>
  );
}
