import type { Agent } from "@agents.example/client/schema";
import { useMemo } from "preact/hooks";
import { signOut, useReadOnly } from "../account";
import { actionText } from "../agent/action-text";
import { actionsOf } from "../agent/actions";
import { tabHref } from "../agent/paths";
import { tabs } from "../agent/tabs";
import { useAgents } from "../agents/roster-hook";
import { page } from "../page";
import { places } from "../places";
import { href, navigate, useRoute } from "../router";
import { cycleTheme, themeText, useTheme } from "../theme";
import { statusOf, statusText } from "../ui/status";
import type { Command } from "./match";

/** Everything that a person can go to or do now. */
export function useCommands(): Command[] {
  const { segments } = useRoute();
  const agents = useAgents().data;
  const readOnly = useReadOnly() !== undefined;
  const theme = useTheme();
  const current = segments[0] === "agents" ? agents?.find(({ id }) => id === segments[1]) : undefined;
  return useMemo(
    () => [
      ...(current === undefined ? [] : currentCommands(current, readOnly)),
      ...(agents ?? []).filter((agent) => agent !== current).map(agentCommand),
      ...pageCommands(readOnly),
      ...consoleCommands(themeText(theme)),
    ],
    [agents, current, readOnly, theme],
  );
}

const go = (address: string) => () => navigate(address);

/** What can be done with the agent of the page, and its other parts. */
function currentCommands(agent: Agent, readOnly: boolean): Command[] {
  const actions = (readOnly ? [] : actionsOf(agent)).map((action): Command => {
    const { label, icon } = actionText(action, agent);
    return { id: `do ${action}`, group: agent.name, text: label, icon, run: () => ({ agent, action }) };
  });
  if (!readOnly && agent.status !== "deleting") {
    const take = tabHref(agent.id, "snapshots", { take: "now" });
    actions.push({ id: "do snapshot", group: agent.name, text: "Take a snapshot", icon: "plus", run: go(take) });
  }
  const parts = tabs.map(({ segment, name }): Command => ({
    id: `part ${segment}`,
    group: agent.name,
    text: name,
    hint: "Part of the agent’s page",
    icon: "agents",
    always: actions.length === 0,
    run: go(tabHref(agent.id, segment)),
  }));
  return [...actions, ...parts];
}

function agentCommand(agent: Agent): Command {
  return {
    id: agent.id,
    group: "Agents",
    text: agent.name,
    hint: statusText(statusOf(agent)),
    icon: "agents",
    words: `${agent.id} ${agent.region} ${agent.resource_plan}`,
    run: go(href(["agents", agent.id])),
  };
}

function pageCommands(readOnly: boolean): Command[] {
  const group = "Pages";
  const create: Command = { id: "new", group, text: "New agent", icon: "plus", run: go(href(["agents", "new"])) };
  return [
    ...(readOnly ? [] : [create]),
    ...places.map(({ segment, name, icon }): Command => ({
      id: `page ${segment}`,
      group,
      text: name,
      icon,
      run: go(href([segment])),
    })),
  ];
}

function consoleCommands(theme: string): Command[] {
  const group = "Console";
  const open = (address: string) => () => void window.open(address, "_blank", "noreferrer");
  const help: Command = {
    id: "support",
    group,
    text: "Contact support",
    icon: "user",
    run: page.support.startsWith("mailto:") ? () => location.assign(page.support) : open(page.support),
  };
  return [
    { id: "docs", group, text: "API reference", hint: "In another tab", icon: "docs", run: open("/docs") },
    ...(page.support === "" ? [] : [help]),
    { id: "theme", group, text: "Change the theme", hint: `Now: ${theme}`, icon: "theme", run: cycleTheme },
    { id: "out", group, text: "Sign out", icon: "back", run: () => void signOut() },
  ];
}
