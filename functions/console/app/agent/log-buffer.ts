import type { AgentLogLine } from "@agents.example/client/schema";
import { Store } from "../store";

/** A line of a log as the console keeps it. */
export interface LogLine {
  /** Counts the lines in the order in which they came. */
  seq: number;
  /** When the container wrote it, as the service sent it; null if unknown. */
  time: string | null;
  /** What is shown: the message without codes for terminals. */
  text: string;
  message: string;
  /** How bad the line says that it is. */
  level: "error" | "warn" | undefined;
  cut: boolean;
}

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

function lineOf(seq: number, line: AgentLogLine): LogLine {
  const text = withoutTerminalCodes(line.message);
  return { seq, time: line.time, text, message: line.message, level: levelOf(text), cut: line.cut === true };
}

// The escape sequences of terminals: colors and cursors (CSI), and titles (OSC).
const terminalCodes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const otherControls = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

function withoutTerminalCodes(message: string): string {
  return message.replace(terminalCodes, "").replace(otherControls, "");
}

const errorWord = /\b(?:error|err|fatal|panic|critical|exception|traceback)\b/i;
const warnWord = /\bwarn(?:ing)?\b/i;
const levelField = /"(?:level|severity|levelname)"\s*:\s*"(\w+)"/i;
/** How much of a line is searched for its level, which stands near the beginning. */
const levelWithin = 160;

function levelOf(text: string): LogLine["level"] {
  const start = text.slice(0, levelWithin);
  // A line of JSON has a field for its level, and may have others with such words.
  const found = start.startsWith("{") ? (levelField.exec(start)?.[1] ?? "") : start;
  return errorWord.test(found) ? "error" : warnWord.test(found) ? "warn" : undefined;
}
