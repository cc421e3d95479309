import type { AgentLogLine } from "@agents.example/client/schema";
import { Store } from "../store";
import { type LogLine, lineOf } from "./log-line";

/** The lines that the console has. */
export interface LogLines {
  list: LogLine[];
  /** How many older lines it dropped. */
  dropped: number;
}

/** How many lines the console keeps. Older ones make room. */
export const maxLines = 10_000;

/** How long new lines wait for others, so that the page is not rendered for each of them. */
const batchTime = 100;

/** Keeps the newest lines of a log. */
export class LogBuffer {
  readonly lines = new Store<LogLines>({ list: [], dropped: 0 });
  private waiting: LogLine[] = [];
  private timer: number | undefined;
  private seq = 0;

  append(line: AgentLogLine): void {
    this.waiting.push(lineOf(++this.seq, line));
    if (this.waiting.length > 2 * maxLines) {
      this.flush(); // bounds the memory of a hidden tab, whose timers are slow
    } else {
      this.timer ??= setTimeout(() => this.flush(), batchTime);
    }
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { list, dropped } = this.lines.value;
    const all = list.concat(this.waiting);
    this.waiting = [];
    const over = Math.max(0, all.length - maxLines);
    this.lines.set({ list: over === 0 ? all : all.slice(over), dropped: dropped + over });
  }

  close(): void {
    clearTimeout(this.timer);
  }
}
