import type { Agent, AgentSnapshot, Plan } from "@agents.example/client/schema";
import type { Appearance } from "../ui/badge";
import { formatBytes, planName, plural } from "../ui/format";
import type { IconName } from "../ui/icons";

interface CauseText {
  icon: IconName;
  text: string;
}

/** Why snapshots are taken. */
const causes: Record<string, CauseText> = {
  user: { icon: "user", text: "Your own" },
  schedule: { icon: "waiting", text: "Daily" },
  release: { icon: "up", text: "Before an update" },
  restore: { icon: "back", text: "Before a restore" },
  move: { icon: "external", text: "For the move to another cluster" },
};

export const causeOf = ({ cause }: AgentSnapshot): CauseText => causes[cause] ?? { icon: "info", text: cause };

/** How the volume was made quiet, in plain words. */
const consistencies: Record<string, string> = {
  hook: "The agent’s program put its files in order first, and went on running.",
  stop: "The agent did not run at that moment, so its files fit together.",
  crash: "The agent ran on, so it has what a machine finds after a power cut. Files may be half written.",
};

export const consistencyText = ({ consistency }: AgentSnapshot): string => consistencies[consistency] ?? consistency;

/** How far a snapshot is. */
export function snapshotState({ status, taken_at }: AgentSnapshot): Appearance {
  switch (status) {
    case "pending":
      return { tone: "busy", icon: "busy", text: taken_at === null ? "Being taken" : "Being stored" };
    case "ready":
      return { tone: "good", icon: "check", text: "Ready" };
    case "failed":
      return { tone: "bad", icon: "error", text: "Failed" };
    case "deleting":
      return { tone: "busy", icon: "busy", text: "Being deleted" };
    default:
      return { tone: "idle", icon: "info", text: status };
  }
}

/** What a snapshot that is pending waits for. */
export function waitsText({ taken_at, consistency, problem }: AgentSnapshot): string {
  switch (true) {
    case problem !== null:
      return `It is tried again: ${problem}`;
    case taken_at !== null:
      return "It has its data, and the agent goes on. It can be used once storage has copied it.";
    case consistency === "stop":
      return "It waits until the agent has stopped. The agent starts again as soon as the snapshot has its data.";
    case consistency === "hook":
      return "It waits for the agent’s program, which puts its files in order.";
    default:
      return "It waits for storage.";
  }
}

export const isMoving = ({ status }: AgentSnapshot): boolean => status === "pending" || status === "deleting";

/** Why nothing can be made from a snapshot; undefined if something can. */
export function unusable({ status }: AgentSnapshot): string | undefined {
  return status === "ready" ? undefined : "Only a snapshot that is ready can be used.";
}

/** What is kept of how much, below the heading. */
export function summaryText(agent: Agent, snapshots: AgentSnapshot[], plan: Plan | undefined): string[] {
  const bytes = snapshots.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  const own = snapshots.filter(({ cause, status }) => cause === "user" && !["failed", "deleting"].includes(status));
  const size = bytes === 0 ? "" : `, ${formatBytes(bytes)}`;
  const texts = [snapshots.length === 0 ? "No snapshots yet" : plural(snapshots.length, "snapshot") + size];
  if (plan !== undefined) {
    const name = planName(agent.resource_plan);
    texts.push(
      `${own.length} of ${plan.max_snapshots} of your own`,
      plan.daily_snapshots === 0
        ? `the ${name} plan takes no daily ones`
        : `daily ones are kept for ${plural(plan.daily_snapshots, "day")}`,
    );
  }
  return texts;
}

const minute = 60_000;
const units = [["day", 1_440 * minute], ["hour", 60 * minute], ["minute", minute]] as const;

/** A length of time in one unit, such as "3 hours". */
export function lengthText(milliseconds: number): string {
  const size = Math.max(0, milliseconds);
  const [unit, each] = units.find(([, each]) => size >= (each === minute ? each : 2 * each)) ?? ["minute", minute];
  const count = Math.floor(size / each);
  return count === 0 ? "less than a minute" : plural(count, unit);
}

/** The image that the agent runs, as snapshots name it; null if it is not known. */
const imageOf = ({ image }: Agent): string | null =>
  image === null || image.id === "custom" ? null : `${image.id}@${image.version}`;

/** What a snapshot was taken of, if the agent runs something else now; undefined if it is the same or not known. */
export function otherImage(agent: Agent, { image }: AgentSnapshot): { then: string; now: string } | undefined {
  const now = imageOf(agent);
  return image === null || now === null || image === now ? undefined : { then: image, now };
}
