import { linesOf, serverEvents } from "@agents.example/client/lines";
import type { AgentLogEnded, AgentLogLine } from "@agents.example/client/schema";
import { send } from "../api/client";
import { CallError, asError, unanswered } from "../api/errors";
import { pauseAfter } from "../api/pace";
import { Store } from "../store";
import { PageVisibility } from "./page-visibility";

/**
 * The containers that have ended, the last one first: previous is the one before the last restart. Their logs are kept
 * for a week.
 */
export const endedSources = ["previous", "ended-2", "ended-3", "ended-4", "ended-5"] as const;

/** The running container with its further lines or without them, or one that has ended. */
export type LogSourceName = "live" | "once" | (typeof endedSources)[number];

/** Which of the ended containers a source is, from 1; 0 for the running one. */
export const endedNumber = (source: LogSourceName): number => (endedSources as readonly string[]).indexOf(source) + 1;

/** Which part of an agent's log to read. */
export interface LogRequest {
  /** The path of the log at the service. */
  path: string;
  source: LogSourceName;
  tail: number;
  /** A time, or a duration before now; empty for no limit. */
  since: string;
}

/** What a reader does. */
export type LogState =
  | { kind: "connecting" }
  | { kind: "live" }
  /** It tries again at a time, because of an error or because the answer ended. */
  | { kind: "waiting"; until: number; error: CallError }
  /** There is no container whose log could be read, or none from before a restart. */
  | { kind: "no_container"; code: string }
  | { kind: "complete"; truncated: boolean }
  | { kind: "failed"; error: CallError };

/** The codes of the errors that there is no container, and that there is none from before a restart. */
export const notRunning = "agent_not_running";
export const notRestarted = "agent_not_restarted";

/** The service ends an answer after ten minutes. */
const followTime = 11 * 60_000;
/** The service sends something every 15 seconds. */
const silence = 40_000;
/** How often to look for a container, in addition to after changes of the agent. */
const containerPause = 15_000;
/** An answer that ends sooner is not repeated immediately. */
const shortAnswer = 5_000;
/** How often an answer that was full may be continued. */
const maxParts = 25;

/** Reads a log, and follows it over the ends of answers and connections. */
export class LogReader {
  readonly state = new Store<LogState>({ kind: "connecting" });
  /** How the container ended, if it has ended and wrote a line. */
  readonly ended = new Store<AgentLogEnded | undefined>(undefined);
  private readonly stopping = new AbortController();
  /** The position after the last line. The service continues there without losing or repeating a line. */
  private position = "";
  private failures = 0;
  private readonly visibility = new PageVisibility();
  private wake: () => void = () => undefined;

  constructor(
    private readonly request: LogRequest,
    private readonly onLine: (line: AgentLogLine) => void,
  ) {}

  start(): void {
    this.visibility.watch();
    void (this.request.source === "live" ? this.follow() : this.read());
  }

  stop(): void {
    this.stopping.abort();
    this.visibility.close();
    this.wake();
  }

  /** Tries now, if the reader waits. */
  retry(): void {
    this.wake();
  }

  private async follow(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      const begun = Date.now(); // the state stays until the outcome of this attempt is known
      try {
        await this.visibility.wanted(this.stopping.signal);
        await this.followOnce();
        if (Date.now() - begun < shortAnswer) {
          await this.pause(shortAnswer);
        }
      } catch (cause) {
        if (this.stopping.signal.aborted) {
          return;
        }
        if (this.visibility.isLost) {
          this.state.set({ kind: "connecting" });
          continue;
        }
        const error = cause instanceof CallError ? cause : brokenConnection();
        if (hasNoContainer(error)) {
          this.state.set({ kind: "no_container", code: error.code });
          await this.pause(containerPause);
        } else if (error.temporary) {
          await this.backOff(error);
        } else {
          this.state.set({ kind: "failed", error });
          return;
        }
      }
    }
  }

  /** Follows the log until the answer ends. It throws if the connection breaks. */
  private async followOnce(): Promise<void> {
    const silent = new AbortController();
    const unseen = this.visibility.lost();
    const signal = AbortSignal.any([this.stopping.signal, silent.signal, unseen]);
    let timer: number | undefined;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), silence);
    };
    heard();
    const { path, tail, since } = this.request;
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.position !== "") {
      headers["Last-Event-ID"] = this.position;
    }
    try {
      const query = { follow: true, tail, since };
      const response = await send(path, { query, headers, signal, timeout: followTime });
      this.state.set({ kind: "live" });
      for await (const { id, data } of serverEvents(linesOf(response.body))) {
        heard();
        this.failures = 0;
        if (data !== undefined) {
          this.onLine(parse(data));
        }
        this.position = id || this.position;
      }
    } finally {
      clearTimeout(timer);
      silent.abort();
    }
  }

  private async backOff(error: CallError): Promise<void> {
    this.failures++;
    const pause = pauseAfter(this.failures, error);
    this.state.set({ kind: "waiting", until: Date.now() + pause, error });
    await this.pause(pause);
  }

  private async pause(time: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, time);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Reads the log once. An answer that is full is continued. */
  private async read(): Promise<void> {
    this.state.set({ kind: "connecting" });
    try {
      let since = this.request.since;
      let known = 0; // lines at the time since that an earlier answer had
      for (let part = 0; part < maxParts; part++) {
        const { last, sameTime, added } = await this.readPart(since, known);
        if (last?.truncated !== true) {
          this.state.set({ kind: "complete", truncated: false });
          return;
        }
        if (last.time === null || !added) {
          break; // the rest cannot be told from what is here
        }
        since = last.time;
        known = sameTime;
      }
      this.state.set({ kind: "complete", truncated: true });
    } catch (cause) {
      if (!this.stopping.signal.aborted) {
        const error = asError(cause);
        this.state.set(
          hasNoContainer(error) ? { kind: "no_container", code: error.code } : { kind: "failed", error },
        );
      }
    }
  }

  /** Reads one answer, and passes on its lines but the first ones at the time since, which are known. */
  private async readPart(since: string, known: number): Promise<{
    last: AgentLogLine | undefined;
    /** How many lines have the time of the last one. */
    sameTime: number;
    added: boolean;
  }> {
    const { path, source, tail } = this.request;
    const ended = endedNumber(source);
    const query = { tail, since, previous: ended === 1, ended: ended > 1 ? ended : undefined };
    const response = await send(path, { query, signal: this.stopping.signal, timeout: 60_000 });
    let last: AgentLogLine | undefined;
    let sameTime = 0;
    let skip = known;
    let added = false;
    for await (const text of linesOf(response.body)) {
      if (text === "") {
        continue;
      }
      const line = parse(text);
      if (line.ended) {
        this.ended.set(line.ended);
      }
      sameTime = line.time === last?.time ? sameTime + 1 : 1;
      last = line;
      if (skip > 0 && line.time === since) {
        skip--;
      } else {
        skip = 0;
        added = true;
        this.onLine(line);
      }
    }
    return { last, sameTime, added };
  }
}

const hasNoContainer = ({ code }: CallError): boolean => code === notRunning || code === notRestarted;

const brokenConnection = (): CallError => unanswered("unreachable", "The connection to the service broke.");

function parse(text: string): AgentLogLine {
  try {
    return JSON.parse(text) as AgentLogLine;
  } catch {
    throw new Error("The service’s answer was cut off. Try again.");
  }
}
