import { reservedText } from "./reserved";

/** One variable of a .env file. */
export interface EnvEntry {
  key: string;
  value: string;
  /** The line on which it begins. */
  line: number;
}

/** A line that could not be read. Its message never has a value, which may be a secret. */
export interface EnvProblem {
  line: number;
  message: string;
}

export interface EnvFile {
  entries: EnvEntry[];
  problems: EnvProblem[];
  /** The lines that could not be read. */
  rest: string;
}

const assignment = /^[ \t]*(?:export[ \t]+)?([^\s=#'"`]+)[ \t]*=[ \t]*/;
const keyForm = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/**
 * Reads a .env file: KEY=value lines with an optional export, comments, and values in quotes, which may go over several
 * lines. References such as ${OTHER} are kept as they are.
 */
export function parseEnv(text: string): EnvFile {
  const reader = new Reader(text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n"));
  const entries = new Map<string, EnvEntry>();
  const problems: EnvProblem[] = [];
  let rest = "";
  while (!reader.done) {
    const { line, at } = reader;
    const read = reader.entry();
    if (typeof read === "string") {
      problems.push({ line, message: read });
      rest += reader.since(at);
    } else if (read !== undefined) {
      entries.delete(read.key); // the last one counts, as in a shell
      entries.set(read.key, { ...read, line });
    }
  }
  return { entries: [...entries.values()], problems, rest: rest.replace(/\n$/, "") };
}

class Reader {
  line = 1;
  at = 0;

  constructor(private readonly text: string) {}

  get done(): boolean {
    return this.at >= this.text.length;
  }

  since(place: number): string {
    return this.text.slice(place, this.at);
  }

  /** The next variable, what is wrong with the line, or undefined if the line is empty or a comment. */
  entry(): { key: string; value: string } | string | undefined {
    const line = this.restOfLine();
    if (/^\s*(#|$)/.test(line)) {
      this.skipLine();
      return undefined;
    }
    const start = assignment.exec(line);
    const key = start?.[1];
    if (start === null || key === undefined) {
      this.skipLine();
      return line.includes("=")
        ? "There is no name before “=”. Write NAME=value."
        : "There is no “=”. Write NAME=value.";
    }
    this.at += start[0].length;
    const value = this.value();
    if (typeof value !== "object") {
      return value;
    }
    if (!keyForm.test(key)) {
      return "The name is not valid. Use letters, digits and underscores, and no digit at the start.";
    }
    return reservedText(key) ?? { key, value: value.text };
  }

  private value(): { text: string } | string {
    const quote = this.text[this.at];
    if (quote !== '"' && quote !== "'" && quote !== "`") {
      const text = this.restOfLine().replace(/(^|[ \t]+)#.*$/, "").trimEnd();
      this.skipLine();
      return { text };
    }
    const end = this.endOf(quote);
    if (end < 0) {
      this.skipLine();
      return `The value begins with ${quote}, but no closing ${quote} follows.`;
    }
    const inner = this.text.slice(this.at + 1, end);
    this.moveTo(end + 1);
    const after = this.restOfLine();
    this.skipLine();
    if (!/^[ \t]*(#.*)?$/.test(after)) {
      return `There is text after the closing ${quote}. Remove it, or escape the quotes inside the value with \\.`;
    }
    return { text: quote === '"' ? unescape(inner) : inner };
  }

  /** Where the quote at the present place ends, or -1. Only double quotes can be escaped. */
  private endOf(quote: string): number {
    for (let i = this.at + 1; i < this.text.length; i++) {
      if (this.text[i] === quote) {
        return i;
      }
      if (this.text[i] === "\\" && quote === '"') {
        i++;
      }
    }
    return -1;
  }

  private restOfLine(): string {
    const end = this.text.indexOf("\n", this.at);
    return this.text.slice(this.at, end < 0 ? undefined : end);
  }

  private skipLine(): void {
    this.moveTo(Math.min(this.at + this.restOfLine().length + 1, this.text.length));
  }

  private moveTo(place: number): void {
    this.line += this.text.slice(this.at, place).split("\n").length - 1;
    this.at = place;
  }
}

const escapes: Record<string, string> = { n: "\n", r: "\r", t: "\t", '"': '"', "\\": "\\", $: "$" };

const unescape = (text: string): string =>
  text.replace(/\\(.)/gs, (all: string, next: string) => escapes[next] ?? all);

/** Whether a pasted text is a .env file rather than one name. */
export const looksLikeEnv = (text: string): boolean => text.includes("\n") || assignment.test(text);
