import { send } from "../api/client";
import { readParts, useDownload } from "../api/download";
import { announce } from "../ui/announce";
import { Button } from "../ui/button";
import { Failure, Notice } from "../ui/feedback";
import { formatBytes } from "../ui/format";
import { saveFile } from "../ui/save-file";
import type { Filter } from "./audit-query";
import { auditPath } from "./paths";

const exportTimeout = 30 * 60_000;

/** Saves the entries that match a filter as a file with one JSON object a line. */
export function useExport(filter: Filter) {
  return useDownload(async (signal, progress) => {
    const response = await send(`${auditPath}/export`, { query: filter, signal, timeout: exportTimeout });
    const parts: BlobPart[] = [];
    await readParts(response, progress, (part) => parts.push(part));
    const file = new Blob(parts, { type: "application/x-ndjson" });
    saveFile(file, `audit-log-${new Date().toISOString().slice(0, 10)}.ndjson`);
    announce("The audit log is exported.");
  });
}

/** What the export does, if it runs or failed. */
export function ExportProgress({ state }: { state: ReturnType<typeof useExport> }) {
  const { received, error, start, stop } = state;
  if (error !== undefined) {
    return <Failure error={error} retry={() => void start()} title="The audit log was not exported" />;
  }
  return received === undefined ? null : (
    <Notice tone="busy" live title="Exporting" actions={<Button onClick={stop}>Stop</Button>}>
      <span aria-live="off">{formatBytes(received)} received.</span>
    </Notice>
  );
}
