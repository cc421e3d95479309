import { href } from "../router";

/** Where the API has an agent. All components that follow the agent share this path, so it is asked for once. */
export const agentPath = (id: string): string => `/api/v1/agents/${encodeURIComponent(id)}`;

export type TabName =
  | ""
  | "metrics"
  | "logs"
  | "terminal"
  | "variables"
  | "schedules"
  | "snapshots"
  | "credentials"
  | "history"
  | "settings";

/** The address of an agent's tab. */
export const tabHref = (id: string, tab: TabName, query: Record<string, string | undefined> = {}): string =>
  href(tab === "" ? ["agents", id] : ["agents", id, tab], query);
