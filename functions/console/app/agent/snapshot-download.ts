import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { send } from "../api/client";
import { type Progress, readParts } from "../api/download";
import { saveFile } from "../ui/save-file";
import { snapshotPath } from "./use-snapshots";

/** The longest time that a download may take. */
const timeout = 12 * 60 * 60_000;

interface FileHandle {
  createWritable: () => Promise<WritableStream<Uint8Array>>;
}

/** Some browsers let a page write to a file that the person chooses, so that an archive needs no memory. */
interface Picker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<FileHandle>;
}

/**
 * Saves a snapshot as an archive. The call needs the session's token in a header, so a link cannot do it. It reports
 * whether the archive is saved: not if the person chose no file.
 */
export async function saveExport(
  agent: Agent,
  snapshot: AgentSnapshot,
  signal: AbortSignal,
  progress: Progress,
): Promise<boolean> {
  const name = fileName(agent, snapshot);
  const pick = (window as Picker).showSaveFilePicker;
  const handle = pick === undefined ? undefined : await pick.call(window, { suggestedName: name }).catch(canceled);
  if (handle === null) {
    return false;
  }
  const response = await send(`${snapshotPath(snapshot)}/export`, { signal, timeout });
  if (handle === undefined) {
    const parts: BlobPart[] = [];
    await readParts(response, progress, (part) => parts.push(part));
    saveFile(new Blob(parts, { type: "application/x-tar" }), name);
    return true;
  }
  const file = (await handle.createWritable()).getWriter();
  try {
    await readParts(response, progress, (part) => file.write(part));
    await file.close();
  } catch (error) {
    await file.abort().catch(() => undefined); // so that no half of an archive looks like one
    throw error;
  }
  return true;
}

/** The person closed the dialog of the browser. */
function canceled(error: unknown): null {
  if (error instanceof DOMException && error.name === "AbortError") {
    return null;
  }
  throw error;
}

function fileName(agent: Agent, { taken_at, created_at }: AgentSnapshot): string {
  const name = agent.name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "agent";
  return `${name}-${(taken_at ?? created_at).slice(0, 19).replace(/:/g, "-")}.tar`;
}
