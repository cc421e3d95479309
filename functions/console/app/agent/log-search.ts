import { useMemo, useRef } from "preact/hooks";
import type { LogLine } from "./log-line";

/** What to look for in lines: the text as it is, in upper or lower case. Undefined for an empty text. */
export function patternOf(search: string): RegExp | undefined {
  return search === "" ? undefined : new RegExp(search.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
}

/** The lines with a match. Only lines that are new since the last call are searched, unless the view is another one. */
export function useMatches(lines: LogLine[], text: string, view: string): LogLine[] {
  const last = useRef<{ search: string; seq: number; matches: LogLine[] }>({ search: "", seq: 0, matches: [] });
  const search = `${view} ${text}`;
  return useMemo(() => {
    const pattern = patternOf(text);
    const known = last.current.search === search ? last.current : { search, seq: 0, matches: [] };
    if (pattern === undefined) {
      last.current = { search, seq: 0, matches: [] };
      return [];
    }
    const first = lines[0]?.seq ?? Infinity;
    const newest = lines.at(-1)?.seq ?? 0;
    const kept = newest < known.seq ? [] : known.matches; // of another log
    const from = newest < known.seq ? 0 : known.seq;
    const found = lines.filter((line) => line.seq > from && pattern.test(line.text));
    const matches = [...kept.filter((line) => line.seq >= first), ...found];
    last.current = { search, seq: newest, matches };
    return matches;
  }, [lines, search]);
}

export interface Part {
  text: string;
  match: boolean;
}

/** The most matches of a line that are marked. */
const maxMarks = 200;

/** Splits a line into what matches and what does not. */
export function partsOf(text: string, pattern: RegExp | undefined): Part[] {
  if (pattern === undefined) {
    return [{ text, match: false }];
  }
  const parts: Part[] = [];
  let end = 0;
  for (const match of text.matchAll(new RegExp(pattern.source, "gi"))) {
    if (match.index > end) {
      parts.push({ text: text.slice(end, match.index), match: false });
    }
    parts.push({ text: match[0], match: true });
    end = match.index + match[0].length;
    if (parts.length > 2 * maxMarks) {
      break;
    }
  }
  if (end < text.length) {
    parts.push({ text: text.slice(end), match: false });
  }
  return parts;
}
