import type { Agent, AgentAction } from "@agents.example/client/schema";
import type { IconName } from "../ui/icons";

/** An action whose dialog asks before it happens. */
export interface Asked {
  agent: Agent;
  action: AgentAction;
}

/** Something that a person can go to or do. */
export interface Command {
  id: string;
  /** The heading that it stands below. */
  group: string;
  text: string;
  /** What else is said about it, such as the status of an agent. */
  hint?: string;
  icon: IconName;
  /** Further words by which it is found. */
  words?: string;
  /** Whether it is shown without a search, too. That is so unless it says otherwise. */
  always?: boolean;
  /** Does it, or returns the action to ask about. */
  run: () => Asked | void;
}

/** How many commands of a group are shown. */
const most = 8;

/** The commands that have all words of a search, the best of each group first. Without a search: the usual ones. */
export function matching(commands: Command[], search: string): Command[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length === 0
    ? commands.filter(({ always = true }) => always)
    : commands
        .map((command, place) => ({ command, place, score: scoreOf(command, words) }))
        .filter(({ score }) => score > 0)
        .sort((a, b) => b.score - a.score || a.place - b.place)
        .map(({ command }) => command);
  const groups = new Map<string, Command[]>();
  for (const command of found) {
    const group = groups.get(command.group) ?? [];
    groups.set(command.group, group);
    if (group.length < most) {
      group.push(command);
    }
  }
  return [...groups.values()].flat();
}

/** How well a command fits: 0 if a word is missing, more if its text or a word of it begins with one. */
function scoreOf({ text, hint = "", words = "", group }: Command, search: string[]): number {
  const name = text.toLowerCase();
  const all = `${name} ${hint} ${words} ${group}`.toLowerCase();
  let score = 0;
  for (const word of search) {
    if (!all.includes(word)) {
      return 0;
    }
    score += name.startsWith(word) ? 4 : name.includes(` ${word}`) ? 3 : name.includes(word) ? 2 : 1;
  }
  return score;
}
