import type { AgentLogEnded } from "@agents.example/client/schema";
import { useEffect, useMemo } from "preact/hooks";
import { useStore } from "../store";
import { LogBuffer, type LogLines } from "./log-buffer";
import { LogReader, type LogRequest, type LogState } from "./log-reader";

export interface Log {
  lines: LogLines;
  state: LogState;
  /** How the container ended, if the log says so. */
  ended: AgentLogEnded | undefined;
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
  return {
    lines: useStore(buffer.lines),
    state: useStore(reader.state),
    ended: useStore(reader.ended),
    retry: () => reader.retry(),
  };
}
