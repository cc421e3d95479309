import type { Agent } from "@agents.example/client/schema";
import { planOrder } from "../ui/format";
import { statusOf } from "../ui/status";

export type SortKey = "name" | "status" | "created";

/** Which agents the list shows, and in which order. It is in the address, so that a link shows the same. */
export interface Filter {
  status: string;
  plan: string;
  region: string;
  search: string;
  sort: SortKey;
  descending: boolean;
}

const sortKeys: SortKey[] = ["name", "status", "created"];

/** The order in which a click sorts first: the newest agents, but names from A. */
export const descendsFirst = (key: SortKey): boolean => key === "created";

/** The statuses, with those first that want attention. */
export const statusOrder = ["error", "pending", "provisioning", "deleting", "running", "asleep", "paused", "stopped"];

export function filterOf(query: URLSearchParams): Filter {
  const sort = sortKeys.find((key) => key === query.get("sort")) ?? "created";
  const order = query.get("order");
  return {
    status: query.get("status") ?? "",
    plan: query.get("plan") ?? "",
    region: query.get("region") ?? "",
    search: query.get("q") ?? "",
    sort,
    descending: order === null ? descendsFirst(sort) : order === "desc",
  };
}

/** The filter for the address, without what is the default. */
export function queryOf(filter: Filter): Record<string, string> {
  const order = filter.descending === descendsFirst(filter.sort) ? "" : filter.descending ? "desc" : "asc";
  return {
    status: filter.status,
    plan: filter.plan,
    region: filter.region,
    q: filter.search,
    sort: filter.sort === "created" ? "" : filter.sort,
    order,
  };
}

export const isNarrowed = (filter: Filter): boolean =>
  [filter.status, filter.plan, filter.region, filter.search.trim()].some((value) => value !== "");

/** The agents that match everything except the status, of which the page shows the counts. */
export function matchesButStatus(agents: Agent[], filter: Filter): Agent[] {
  const search = filter.search.trim().toLowerCase();
  return agents.filter(
    (agent) =>
      (filter.plan === "" || agent.resource_plan === filter.plan) &&
      (filter.region === "" || agent.region === filter.region) &&
      (search === "" || agent.name.toLowerCase().includes(search) || agent.id.startsWith(search)),
  );
}

const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/** Sorts agents, which come newest first. Agents that are equal keep that order. */
export function sortAgents(agents: Agent[], { sort, descending }: Filter): Agent[] {
  if (sort === "created") {
    return descending ? agents : agents.toReversed();
  }
  const compare =
    sort === "name"
      ? (a: Agent, b: Agent) => names.compare(a.name, b.name)
      : (a: Agent, b: Agent) => rank(statusOrder, statusOf(a)) - rank(statusOrder, statusOf(b));
  return agents.toSorted((a, b) => (descending ? compare(b, a) : compare(a, b)));
}

/** How many agents have each status, in the order of the statuses. */
export function countStatuses(agents: Agent[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const agent of agents) {
    const status = statusOf(agent);
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return [...counts].sort(([a], [b]) => rank(statusOrder, a) - rank(statusOrder, b));
}

/** The values of a field that some agent has. */
export const plansOf = (agents: Agent[]): string[] =>
  [...new Set(agents.map((agent) => agent.resource_plan))].sort((a, b) => rank(planOrder, a) - rank(planOrder, b));

export const regionsOf = (agents: Agent[]): string[] => [...new Set(agents.map((agent) => agent.region))].sort();

const rank = (order: string[], value: string): number => {
  const place = order.indexOf(value);
  return place < 0 ? order.length : place;
};
