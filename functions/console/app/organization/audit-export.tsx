import { partsOf } from "@agents.example/client/lines";
import { useEffect, useRef, useState } from "preact/hooks";
import { send } from "../api/client";
import { type CallError, asError } from "../api/errors";
import { announce } from "../ui/announce";
import { Button } from "../ui/button";
import { Failure, Notice } from "../ui/feedback";
import { formatBytes } from "../ui/format";
import { saveFile } from "../ui/save-file";
import type { Filter } from "./audit-query";
import { auditPath } from "./paths";

/** An export of a long log takes time. The person sees it advance, and can stop it. */
const exportTimeout = 30 * 60_000;
const redrawEvery = 200;

/** Saves the entries that match a filter as a file with one JSON object a line. */
export function useExport(filter: Filter) {
  const [received, setReceived] = useState<number>();
  const [error, setError] = useState<CallError>();
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const start = async () => {
    const abort = new AbortController();
    running.current = abort;
    setError(undefined);
    setReceived(0);
    try {
      const response = await send(`${auditPath}/export`, {
        query: filter,
        signal: abort.signal,
        timeout: exportTimeout,
      });
      const file = await collect(response, setReceived);
      saveFile(file, `audit-log-${new Date().toISOString().slice(0, 10)}.ndjson`);
      announce("The audit log is exported.");
    } catch (failure) {
      if (!abort.signal.aborted) {
        setError(asError(failure));
      }
    }
    setReceived(undefined);
  };
  return { received, error, start: () => void start(), stop: () => running.current?.abort() };
}

export type Export = ReturnType<typeof useExport>;

/** What the export does, if it runs or failed. */
export function ExportProgress({ state }: { state: Export }) {
  if (state.error !== undefined) {
    return <Failure error={state.error} retry={state.start} title="The audit log was not exported" />;
  }
  return state.received === undefined ? null : (
    <Notice tone="busy" live title="Exporting" actions={<Button onClick={state.stop}>Stop</Button>}>
      <span aria-live="off">{formatBytes(state.received)} received.</span>
    </Notice>
  );
}

async function collect(response: Response, progress: (bytes: number) => void): Promise<Blob> {
  const parts: BlobPart[] = [];
  let bytes = 0;
  let drawn = 0;
  for await (const part of partsOf(response.body)) {
    parts.push(part);
    bytes += part.byteLength;
    if (Date.now() - drawn > redrawEvery) {
      drawn = Date.now();
      progress(bytes);
    }
  }
  return new Blob(parts, { type: "application/x-ndjson" });
}
