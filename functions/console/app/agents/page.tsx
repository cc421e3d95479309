import type { Agent } from "@agents.example/client/schema";
import { useEffect, useMemo } from "preact/hooks";
import { useReadOnly } from "../account";
import { href, navigate, useRoute, useTitle } from "../router";
import { Button } from "../ui/button";
import { Following } from "../ui/feedback";
import { plural } from "../ui/format";
import { statusOf } from "../ui/status";
import { useStatusAnnouncements } from "./announcements";
import { CreateDialog } from "./create";
import { NoAgents, NoMatch } from "./empty";
import { countStatuses, type Filter, filterOf, isNarrowed, matchesButStatus, queryOf, sortAgents } from "./filter";
import { useAgents, useRoster } from "./roster-hook";
import { useReturn } from "./scroll";
import { StatusFilter } from "./status-filter";
import { AgentTable } from "./table";
import { Toolbar } from "./toolbar";

/** All agents of the organization, live. */
export function AgentsPage() {
  const { segments, query } = useRoute();
  const creating = segments[1] === "new";
  const filter = filterOf(query);
  const live = useAgents();
  const readOnly = useReadOnly();
  useTitle(creating ? "New agent" : "Agents");
  useStatusAnnouncements(live);
  useReturn(live.data !== undefined);
  const back = href(["agents"], queryOf(filter));
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Agents</h1>
        {live.data === undefined || live.complete ? null : (
          <span class="quiet" role="status">
            {plural(live.data.length, "agent")} loaded so far …
          </span>
        )}
        <div class="actions">
          <Button
            kind={live.data?.length === 0 ? "normal" : "primary"} // the page of a newcomer has it in the middle
            icon="plus"
            unavailable={readOnly}
            onClick={() => navigate(href(["agents", "new"], queryOf(filter)))}
          >
            New agent
          </Button>
        </div>
      </div>
      <Following live={live} what="the agents">
        {(agents) => (agents.length === 0 ? <NoAgents /> : <List agents={agents} filter={filter} />)}
      </Following>
      {creating ? <CreateDialog onClose={() => navigate(back, { replace: true })} /> : null}
    </>
  );
}

function List({ agents, filter }: { agents: Agent[]; filter: Filter }) {
  const { status, plan, region, search, sort, descending } = filter;
  const found = useMemo(() => matchesButStatus(agents, filter), [agents, plan, region, search]);
  const shown = useMemo(() => {
    const matching = status === "" ? found : found.filter((agent) => statusOf(agent) === status);
    return sortAgents(matching, filter);
  }, [found, status, sort, descending]);
  const roster = useRoster();
  useEffect(() => () => roster.show([]), [roster]);
  const change = (changed: Partial<Filter>, options: { replace?: boolean } = {}) =>
    navigate(href(["agents"], queryOf({ ...filter, ...changed })), options);
  return (
    <>
      <div class="agents-tools">
        <StatusFilter counts={countStatuses(found)} total={found.length} filter={filter} />
        {agents.length > 1 || isNarrowed(filter) ? (
          <Toolbar agents={agents} filter={filter} onChange={change} />
        ) : null}
      </div>
      {shown.length === 0 ? (
        <NoMatch onClear={() => change({ status: "", plan: "", region: "", search: "" })} />
      ) : (
        <AgentTable agents={shown} filter={filter} onChange={change} onShown={(ids) => roster.show(ids)} />
      )}
      <p class="visually-hidden" role="status">
        {isNarrowed(filter) ? `${plural(shown.length, "agent")} of ${agents.length} shown` : ""}
      </p>
    </>
  );
}
