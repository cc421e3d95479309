import type { AgentLogLine } from "@agents.example/client/schema";

/** How bad a line says that it is. */
export type Level = "debug" | "info" | "warn" | "error";

/** The levels, the least bad one first. */
export const levels: Level[] = ["debug", "info", "warn", "error"];

/** A line of a log as the console keeps it. */
export interface LogLine {
  /** Counts the lines in the order in which they came. */
  seq: number;
  /** When the container wrote it, as the service sent it; null if unknown. */
  time: string | null;
  /** What is shown: of a line of JSON its message and its other fields, without its time and level. */
  text: string;
  /** The message without codes for terminals. */
  raw: string;
  message: string;
  /** Undefined if the line does not say it. */
  level: Level | undefined;
  cut: boolean;
}

export function lineOf(seq: number, line: AgentLogLine): LogLine {
  const raw = withoutTerminalCodes(line.message);
  const { text, level } = readable(raw);
  return { seq, time: line.time, text, raw, message: line.message, level, cut: line.cut === true };
}

/** Whether a line is at least as bad as a level. A line that does not say it is taken for information. */
export const isAtLeast = (line: LogLine, level: Level): boolean =>
  levels.indexOf(line.level ?? "info") >= levels.indexOf(level);

const raws = new WeakMap<LogLine, LogLine>();

/** The line with everything that the container wrote. The same line always has the same one. */
export function rawOf(line: LogLine): LogLine {
  const known = raws.get(line) ?? { ...line, text: line.raw };
  raws.set(line, known);
  return known;
}

// The escape sequences of terminals: colors and cursors (CSI), and titles (OSC).
const terminalCodes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const otherControls = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

function withoutTerminalCodes(message: string): string {
  return message.replace(terminalCodes, "").replace(otherControls, "");
}

// The fields in which loggers write what each line has.
const messageKeys = ["message", "msg", "event", "@message", "textPayload"];
const levelKeys = ["level", "severity", "levelname", "lvl", "log.level"];
const timeKeys = ["time", "timestamp", "ts", "@timestamp", "asctime", "datetime"];

const errorWord = /\b(?:error|err|fatal|panic|critical|alert|emergency|exception|traceback)\b/i;
const warnWord = /\bwarn(?:ing)?\b/i;
const debugWord = /^(?:debug|trace|verbose)$/i;
const infoWord = /^(?:info|information|notice|default)$/i;
/** How much of a line of text is searched for its level, which stands near the beginning. */
const levelWithin = 160;

/** What a line says, and how bad that is. */
export function readable(raw: string): { text: string; level: Level | undefined } {
  const fields = raw.startsWith("{") ? parsed(raw) : undefined;
  if (fields === undefined) {
    const start = raw.slice(0, levelWithin);
    return { text: raw, level: raw.startsWith("{") ? undefined : levelOf(start) };
  }
  const messageKey = messageKeys.find((key) => typeof fields[key] === "string");
  const levelKey = levelKeys.find((key) => ["string", "number"].includes(typeof fields[key]));
  const level = levelKey === undefined ? undefined : levelOfField(fields[levelKey]);
  if (messageKey === undefined) {
    return { text: raw, level };
  }
  const known = [messageKey, ...(level === undefined ? [] : [levelKey]), timeKeys.find((key) => key in fields)];
  const rest = Object.entries(fields).filter(([key]) => !known.includes(key));
  return { text: [fields[messageKey], ...rest.map(([key, value]) => `${key}=${valueText(value)}`)].join(" "), level };
}

function parsed(raw: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(raw) as Record<string, unknown>;
  } catch {
    return undefined; // a line that was cut, or one that only looks like JSON
  }
}

const levelOf = (text: string): Level | undefined =>
  errorWord.test(text) ? "error" : warnWord.test(text) ? "warn" : undefined;

/** The level of a field: a word, or a number as pino and bunyan write them. */
function levelOfField(value: unknown): Level | undefined {
  if (typeof value === "number") {
    return value >= 50 ? "error" : value >= 40 ? "warn" : value >= 30 ? "info" : value >= 10 ? "debug" : undefined;
  }
  const word = String(value);
  return levelOf(word) ?? (debugWord.test(word) ? "debug" : infoWord.test(word) ? "info" : undefined);
}

const plain = /^[^\s"=]+$/;

const valueText = (value: unknown): string =>
  typeof value === "string" && plain.test(value) ? value : JSON.stringify(value);
