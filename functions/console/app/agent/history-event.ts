import type { Event } from "@agents.example/client/schema";
import { eventTitle } from "../events/event-text";
import { fieldText, ownFields } from "../events/fields";
import { formatBytes } from "../ui/format";
import type { IconName } from "../ui/icons";
import type { Tone } from "../ui/tone";
import { refusalText } from "./egress-text";
import type { Entry } from "./history-entry";
import { callDuration, callState } from "./schedule-text";
import { stageText } from "./stage-text";

const looks: Record<string, [IconName, Tone]> = {
  "agent.created": ["plus", "good"],
  "agent.pending": ["waiting", "warn"],
  "agent.provisioning": ["play", "busy"],
  "agent.running": ["running", "good"],
  "agent.recovered": ["running", "good"],
  "agent.paused": ["paused", "idle"],
  "agent.asleep": ["asleep", "idle"],
  "agent.woken": ["play", "busy"],
  "agent.stopped": ["stopped", "idle"],
  "agent.error": ["error", "bad"],
  "agent.deleting": ["trash", "busy"],
  "agent.updated": ["pencil", "idle"],
  "agent.image_updated": ["up", "good"],
  "agent.image_reverted": ["back", "warn"],
  "agent.restored": ["back", "good"],
  "agent.moved": ["up", "good"],
  "agent.move_failed": ["back", "warn"],
  "snapshot.ready": ["check", "good"],
  "snapshot.failed": ["error", "bad"],
  "snapshot.deleted": ["trash", "idle"],
  "egress.refused": ["error", "warn"],
  "credentials.rotated": ["key", "good"],
};

/** What an event says about the agent. Its data depends on its type, and may have more in a later release. */
export function eventEntry({ id, type, created_at, data }: Event): Entry {
  const [icon, tone] = looks[type] ?? ["info", "idle"];
  const entry: Entry = {
    id: `event ${id}`,
    at: Date.parse(created_at),
    kind: `event ${type}`,
    icon,
    tone,
    title: eventTitle(type),
    outcome: "",
    details: [],
  };
  switch (type) {
    case "agent.stage_changed":
      return { ...entry, ...stageEntry(data) };
    case "agent.updated":
      return { ...entry, ...updatedEntry(list(data["changes"])) };
    case "agent.image_updated":
    case "agent.image_reverted":
      return { ...entry, details: imageDetails(data) };
    case "schedule.called":
      return { ...entry, ...callEntry(data) };
    case "agent.moved":
      return { ...entry, details: [movedText(data), "Its address has changed."] };
    case "agent.move_failed":
      return { ...entry, details: [movedText(data), text(data["reason"])].filter(Boolean) };
    case "agent.restored":
    case "snapshot.ready":
    case "snapshot.failed":
    case "snapshot.deleted":
      return { ...entry, details: snapshotDetails(data) };
    case "egress.refused":
      return { ...entry, title: `${text(data["host"])} was refused`, details: [refusalText(text(data["reason"]))] };
    case "credentials.rotated":
      return { ...entry, title: "The agent accepted the new credentials, and refused the old ones" };
    case "agent.woken":
      return { ...entry, details: [wokenBy[text(data["cause"])] ?? text(data["cause"])].filter(Boolean) };
    default:
      return type.startsWith("secret_operation.")
        ? { ...entry, icon: "key", title: steps[type] ?? entry.title, operation: text(data["operation_id"]) }
        : { ...entry, details: reasonsOf(data) };
  }
}

/** Between which regions an agent moved, or was to. */
function movedText(data: Event["data"]): string {
  return `From ${text(data["from_region"])} to ${text(data["to_region"])}`;
}

/** The steps of an operation on a secret, as parts of its row. */
const steps: Record<string, string> = {
  "secret_operation.stored": "The new value was stored",
  "secret_operation.succeeded": "The agent used it",
};

/** Which fields changed, in words. Those that the control plane writes are named if it wrote all of them. */
function updatedEntry(fields: string[]): Partial<Entry> {
  const telling = fields.filter((field) => !ownFields.includes(field));
  const named = telling.length === 0 ? fields : telling;
  return { title: `Changed: ${[...new Set(named.map(fieldText))].join(", ")}`, fields };
}

const outcomes: Record<string, [IconName, Tone, string]> = {
  running: ["busy", "busy", "Began"],
  succeeded: ["check", "good", "Done"],
  skipped: ["check", "idle", "Nothing to do"],
  failed: ["error", "bad", "Failed"],
};

function stageEntry(data: Event["data"]): Partial<Entry> {
  const status = text(data["status"]);
  const [icon, tone, outcome] = outcomes[status] ?? ["info", "idle", status];
  const attempt = Number(data["attempt"]);
  return {
    icon: icon === "busy" ? "play" : icon,
    tone,
    outcome,
    title: `Stage “${stageText(text(data["stage"])).title}”`,
    details: [attempt > 1 ? `Attempt ${attempt}` : "", failure(data["error_code"], data["message"])].filter(Boolean),
  };
}

/** How the call of a schedule ended. */
function callEntry(data: Event["data"]): Partial<Entry> {
  const number = (value: unknown): number | null => (typeof value === "number" ? value : null);
  const called = {
    outcome: text(data["outcome"]),
    status: number(data["status"]),
    duration_ms: number(data["duration_ms"]),
  };
  const { icon, tone, text: outcome } = callState(called);
  return {
    icon,
    tone,
    outcome,
    title: `Schedule ${text(data["schedule_id"])} called the agent`,
    details: [callDuration(called)].filter(Boolean).map(sentence),
  };
}

/** Which version the agent runs, which one it ran before, and why it went back. */
function imageDetails(data: Event["data"]): string[] {
  const { id, version } = (data["image"] ?? {}) as Record<string, unknown>;
  const former = text(data["previous_version"]);
  const moved = former === "" ? `To ${text(version)}` : `From ${former} to ${text(version)}`;
  return [`${moved} of the image ${text(id)}`, text(data["reason"])].filter(Boolean);
}

/** Which snapshot it is about, how large it is, and why it failed. */
function snapshotDetails({ name, size_bytes, problem }: Event["data"]): string[] {
  const size = typeof size_bytes === "number" ? `, ${formatBytes(size_bytes)}` : "";
  return [`“${text(name)}”${size}`, text(problem)].filter(Boolean);
}

/** What woke an agent. */
const wokenBy: Record<string, string> = {
  request: "By a request",
  schedule: "By a schedule",
  resume: "By an admin or an API key",
  use: "It was in use again",
};

function reasonsOf(data: Event["data"]): string[] {
  const { code, message } = (data["error"] ?? {}) as Record<string, unknown>;
  const billing = data["status_reason"] === "billing" ? "Because of the organization’s plan or payments" : "";
  return [billing, failure(code, message)].filter(Boolean);
}

const failure = (code: unknown, message: unknown): string =>
  text(code) === "" ? "" : `${text(message)} Code ${text(code)}`.trim();

const sentence = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);

const text = (value: unknown): string => (typeof value === "string" ? value : "");

const list = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
