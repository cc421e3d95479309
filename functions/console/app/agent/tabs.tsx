import type { Agent } from "@agents.example/client/schema";
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { lazy } from "../ui/lazy";
import { Overview } from "./overview";
import { type TabName, tabHref } from "./paths";

interface Tab {
  segment: TabName;
  name: string;
  content: ComponentType<{ agent: Agent }>;
}

export const tabs: Tab[] = [
  { segment: "", name: "Overview", content: Overview },
  { segment: "metrics", name: "Metrics", content: lazy(() => import("./metrics").then((m) => m.MetricsTab)) },
  { segment: "logs", name: "Logs", content: lazy(() => import("./logs").then((m) => m.LogsTab)) },
  { segment: "terminal", name: "Terminal", content: lazy(() => import("./terminal").then((m) => m.TerminalTab)) },
  { segment: "variables", name: "Variables", content: lazy(() => import("./variables").then((m) => m.VariablesTab)) },
  { segment: "schedules", name: "Schedules", content: lazy(() => import("./schedules").then((m) => m.SchedulesTab)) },
  { segment: "snapshots", name: "Snapshots", content: lazy(() => import("./snapshots").then((m) => m.SnapshotsTab)) },
  {
    segment: "credentials",
    name: "Credentials",
    content: lazy(() => import("./credentials").then((m) => m.CredentialsTab)),
  },
  { segment: "history", name: "History", content: lazy(() => import("./history").then((m) => m.HistoryTab)) },
  { segment: "settings", name: "Settings", content: lazy(() => import("./settings").then((m) => m.SettingsTab)) },
];

/** The ways to the parts of an agent's page. They are links, so each has an address and the back button works. */
export function TabBar({ id, current }: { id: string; current: string }) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone, the bar is wider than the page.
    bar.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);
  return (
    <nav class="tabs" ref={bar} aria-label="Parts of the agent">
      {tabs.map(({ segment, name }) => (
        <a key={segment} href={tabHref(id, segment)} aria-current={segment === current ? "page" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}
