import { saveFile } from "../ui/save-file";
import type { LogLine } from "./log-line";

/** Saves lines as a text file, each with its time. */
export function downloadLines(lines: LogLine[], agentName: string): void {
  const text = lines.map((line) => `${line.time ?? "-"} ${line.message}\n`);
  saveFile(new Blob(text, { type: "text/plain" }), fileName(agentName, new Date()));
}

function fileName(agentName: string, now: Date): string {
  const name = agentName.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "agent";
  return `${name}-${now.toISOString().slice(0, 19).replace(/:/g, "-")}.log`;
}
