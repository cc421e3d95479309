import { partsOf } from "@agents.example/client/lines";
import { useEffect, useRef, useState } from "preact/hooks";
import { asError, type CallError } from "./errors";

const redrawEvery = 200;

/** Receives how many bytes of a download have arrived. */
export type Progress = (bytes: number) => void;

/** Reads what an answer sends, and reports now and then how far that is. */
export async function readParts(
  response: Response,
  progress: Progress,
  write: (part: Uint8Array<ArrayBuffer>) => unknown,
): Promise<void> {
  let bytes = 0;
  let drawn = 0;
  for await (const part of partsOf(response.body)) {
    await write(part);
    bytes += part.byteLength;
    if (Date.now() - drawn > redrawEvery) {
      drawn = Date.now();
      progress(bytes);
    }
  }
}

/** A download that takes time: the person sees it advance, and can stop it. It stops with the component. */
export function useDownload(run: (signal: AbortSignal, progress: Progress) => Promise<void>) {
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
      await run(abort.signal, setReceived);
    } catch (failure) {
      if (!abort.signal.aborted) {
        setError(asError(failure));
      }
    }
    setReceived(undefined);
  };
  return { received, error, start, stop: () => running.current?.abort() };
}
