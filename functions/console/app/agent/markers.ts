import type { Event } from "@agents.example/client/schema";
import { eventTitle } from "../events/event-text";
import { ownFields } from "../events/fields";
import { eventEntry } from "./history-event";
import type { Tone } from "../ui/tone";

/** Something that happened, in the charts. */
export interface Marker {
  /** When, in Unix seconds. */
  at: number;
  tone: Tone;
  /** What happened, one after the other. */
  texts: string[];
}

/** The types of events that explain a curve. Of changes, those by a person or that replace the pod. */
const telling = [
  "agent.created",
  "agent.running",
  "agent.recovered",
  "agent.error",
  "agent.pending",
  "agent.paused",
  "agent.stopped",
  "agent.asleep",
  "agent.woken",
  "agent.image_updated",
  "agent.image_reverted",
  "agent.restored",
  "agent.moved",
  "credentials.rotated",
];

const tones: Tone[] = ["bad", "warn", "busy", "idle", "good"];

/** What happened in a period, the oldest first. What happened within one step of the curves is one marker. */
export function markersOf(events: Event[], from: number, to: number, step: number): Marker[] {
  const markers: Marker[] = [];
  for (const event of events) {
    const text = textOf(event);
    const at = Date.parse(event.created_at) / 1_000;
    if (text === "" || at < from || at > to) {
      continue;
    }
    const { tone } = eventEntry(event);
    const last = markers.at(-1);
    if (last !== undefined && at - last.at < step) {
      last.texts = [...new Set([...last.texts, text])];
      last.tone = tones.indexOf(tone) < tones.indexOf(last.tone) ? tone : last.tone;
    } else {
      markers.push({ at, tone, texts: [text] });
    }
  }
  return markers;
}

function textOf(event: Event): string {
  if (telling.includes(event.type)) {
    return eventTitle(event.type);
  }
  const fields = event.type === "agent.updated" && Array.isArray(event.data["changes"]) ? event.data["changes"] : [];
  if (fields.some((field) => !ownFields.includes(String(field)))) {
    return eventEntry(event).title;
  }
  return fields.includes("dashboard_warming") ? "Pod replaced" : "";
}
