import type { Agent, EgressLog, EgressLogHost } from "@agents.example/client/schema";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/client";
import { putLive, refreshLive, useLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { type Column, RecordTable } from "../organization/table";
import { toast } from "../ui/announce";
import { type Appearance, Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Failure, Following } from "../ui/feedback";
import { plural } from "../ui/format";
import { Time } from "../ui/time";
import { refusalText } from "./egress-text";
import { agentPath } from "./paths";

export const egressLogPath = (id: string): string => `${agentPath(id)}/egress-log`;

/** The gate reports a host some seconds after the agent has tried it. */
const every = 10_000;
/** How many hosts are shown first. */
const some = 20;

/** The hosts that the agent reached or was refused in the last days, and a way to allow those that were refused. */
export function EgressLogCard({ agent, unavailable }: { agent: Agent; unavailable: string | undefined }) {
  const live = useLive<EgressLog>(egressLogPath(agent.id), { every });
  const [all, setAll] = useState(false);
  useEffect(live.refresh, [agent.updated_at]);
  const columns: Column<EgressLogHost>[] = [
    { head: "Host", cell: ({ host }) => <code>{host}</code> },
    { head: "State", cell: (host) => <Badge {...stateOf(host)} /> },
    { head: "Refused", cell: (host) => <Refusals host={host} /> },
    { head: "Used", cell: (host) => <Uses host={host} /> },
    {
      head: "Actions",
      actions: true,
      cell: ({ host, allowed }) =>
        allowed || !isName(host) ? null : <Allow agent={agent} host={host} unavailable={unavailable} />,
    },
  ];
  return (
    <section class="card" aria-label="Hosts that it tried">
      <div class="head">
        <h2>Hosts that it tried</h2>
        <span class="small quiet">In the last 7 days, those that were refused first.</span>
      </div>
      <Following live={live} what="the hosts">
        {({ items }) =>
          items.length === 0 ? (
            <p class="body quiet">
              {agent.egress.mode === "open"
                ? "What an agent reaches is recorded while it may reach allowed hosts only."
                : "The agent has tried no host yet. One appears here some seconds after it was tried."}
            </p>
          ) : (
            <>
              <RecordTable
                label="Hosts that it tried"
                columns={columns}
                rows={all ? items : items.slice(0, some)}
                id={({ host }) => host}
              />
              {all || items.length <= some ? null : (
                <div class="body">
                  <Button onClick={() => setAll(true)}>{`Show all ${plural(items.length, "host")}`}</Button>
                </div>
              )}
            </>
          )
        }
      </Following>
    </section>
  );
}

/** Whether a row of the log is a host, and not what is counted together or names none. */
const isName = (host: string): boolean => !host.startsWith("(");

function stateOf({ allowed, refused }: EgressLogHost): Appearance {
  return allowed
    ? { tone: "good", icon: "check", text: "Allowed" }
    : refused > 0
      ? { tone: "warn", icon: "error", text: "Refused" }
      : { tone: "idle", icon: "close", text: "No longer allowed" };
}

function Refusals({ host: { refused, refused_at: at, reason } }: { host: EgressLogHost }) {
  return refused === 0 || at === null ? (
    <span class="quiet">Never</span>
  ) : (
    <div class="stack-tight">
      <span class="number">
        {plural(refused, "time")}, <Time value={at} />
      </span>
      {reason === null ? null : <span class="small quiet">{refusalText(reason)}</span>}
    </div>
  );
}

function Uses({ host: { used, last_at: at } }: { host: EgressLogHost }) {
  return used === 0 ? (
    <span class="quiet">Never</span>
  ) : (
    <span class="number">
      {plural(used, "time")}, <Time value={at} />
    </span>
  );
}

/** Adds a host to what the agent may reach. A wildcard that denies it stays: then it takes a change of the lists. */
function Allow({ agent, host, unavailable }: { agent: Agent; host: string; unavailable: string | undefined }) {
  const allow = useSubmit(async (intent) => {
    const body = { hosts: [host] };
    const answer = await call<Agent>(`${agentPath(agent.id)}/egress-hosts`, { method: "POST", body, intent });
    putLive(agentPath(agent.id), answer.data);
    refreshLive(egressLogPath(agent.id));
    toast(`The agent may reach ${host} now.`, "good");
  });
  const matches = (pattern: string) => pattern.startsWith("*") && host.endsWith(pattern.slice(1));
  const wildcard = agent.egress.deny.find(matches);
  return (
    <>
      <Button
        icon="check"
        busy={allow.busy}
        unavailable={wildcard === undefined ? unavailable : `The denied hosts have ${wildcard}. Change the lists.`}
        onClick={() => void allow.send()}
      >
        Allow<span class="visually-hidden"> {host}</span>
      </Button>
      {allow.error === undefined ? null : <Failure error={allow.error} />}
    </>
  );
}
