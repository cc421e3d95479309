import type { Agent } from "@agents.example/client/schema";
import { OpenDashboard } from "../agent/dashboard";
import { putLive } from "../api/live";
import { href } from "../router";
import { Icon } from "../ui/icons";
import { planName } from "../ui/format";
import { isAsleep, Status } from "../ui/status";
import { Time } from "../ui/time";
import type { Filter, SortKey } from "./filter";
import { keepPlace } from "./scroll";
import { type ChangeFilter, nextOrder } from "./toolbar";
import { VirtualRows } from "./virtual";
import { whyOf } from "./why";

/** The agents in rows, or in cards on a narrow screen. */
export function AgentTable(props: {
  agents: Agent[];
  filter: Filter;
  onChange: ChangeFilter;
  onShown: (ids: string[]) => void;
}) {
  const { agents, filter, onChange, onShown } = props;
  const sortable = (key: SortKey, name: string) => (
    <SortHeader name={name} sort={key} filter={filter} onChange={onChange} />
  );
  return (
    <div class="agents card" role="table" aria-label="Agents" aria-rowcount={agents.length + 1}>
      <div role="rowgroup" class="wide-only">
        <div class="item head" role="row" aria-rowindex={1}>
          {sortable("status", "Status")}
          {sortable("name", "Name")}
          <span role="columnheader">Plan</span>
          <span role="columnheader">Region</span>
          {sortable("created", "Created")}
          <span role="columnheader">Dashboard</span>
        </div>
      </div>
      <VirtualRows items={agents} keyOf={(agent) => agent.id} onShown={onShown}>
        {(agent) => <Cells agent={agent} />}
      </VirtualRows>
    </div>
  );
}

function SortHeader(props: { name: string; sort: SortKey; filter: Filter; onChange: ChangeFilter }) {
  const { name, sort, filter, onChange } = props;
  const sorted = filter.sort === sort;
  const order = filter.descending ? "descending" : "ascending";
  return (
    <span role="columnheader" aria-sort={sorted ? order : "none"}>
      <button type="button" class="sort" onClick={() => onChange(nextOrder(filter, sort))}>
        {name}
        {sorted ? <Icon name={filter.descending ? "down" : "up"} /> : null}
      </button>
    </span>
  );
}

function Cells({ agent }: { agent: Agent }) {
  const why = whyOf(agent);
  const open = () => {
    keepPlace(agent.id);
    putLive(`/api/v1/agents/${agent.id}`, agent); // shown until the page has read more
  };
  return (
    <>
      <span role="cell" class="cell-status">
        <Status agent={agent} />
      </span>
      <span role="cell" class="cell-name">
        <a href={href(["agents", agent.id])} onClick={open} title={agent.name}>
          {agent.name}
        </a>
        <span class={agent.status === "error" ? "why bad" : "why"} title={why?.detail}>
          {why === undefined ? "Last change" : `${why.text} ·`} <Time value={agent.updated_at} />
        </span>
      </span>
      <span role="cell" class="cell-plan">
        {planName(agent.resource_plan)}
      </span>
      <span role="cell" class="cell-region">
        {agent.region}
      </span>
      <span role="cell" class="cell-created">
        <span class="visually-hidden narrow-only">Created </span>
        <Time value={agent.created_at} />
      </span>
      <span role="cell" class="cell-dashboard">
        {agent.status === "running" || isAsleep(agent) ? <OpenDashboard agent={agent} short /> : null}
      </span>
    </>
  );
}
