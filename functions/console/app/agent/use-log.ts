import { useEffect, useMemo } from "preact/hooks";
import { useStore } from "../store";
import { LogBuffer, type LogLines } from "./log-buffer";
import { LogReader, type LogRequest, type LogState } from "./log-reader";

export interface Log {
  lines: LogLines;
  state: LogState;
  /** Tries now, if the log waits. */
  retry: () => void;
}

/** Reads a log while a component shows it. Another request or attempt begins it again. */
export function useLog(request: LogRequest, attempt: number): Log {
  const { path, source, tail, since } = request;
  const { buffer, reader } = useMemo(() => {
    const made = new LogBuffer();
    return { buffer: made, reader: new LogReader({ path, source, tail, since }, (line) => made.append(line)) };
  }, [path, source, tail, since, attempt]);
  useEffect(() => {
    reader.start();
    return () => {
      reader.stop();
      buffer.close();
    };
  }, [reader]);
  return { lines: useStore(buffer.lines), state: useStore(reader.state), retry: () => reader.retry() };
}
