import { useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";
import { Button } from "../ui/button";
import { formatNumber } from "../ui/format";
import type { LogLine } from "./log-line";
import { Heights, messageProbe, type Offsets, rowAt, useOffsets, useTextSize } from "./log-layout";
import { LogRow } from "./log-row";
import { patternOf } from "./log-search";

/** Rows outside the view that are rendered, so that scrolling shows no gap. */
const margin = 20;

export interface LogViewProps {
  rows: LogLine[];
  label: string;
  wrap: boolean;
  search: string;
  /** The line to show, which a person chose among the matches. */
  current: LogLine | undefined;
}

/** A long log, of which only the rows in view are in the document. It stays at its end until a person scrolls up. */
export function LogView({ rows, label, wrap, search, current }: LogViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const ruler = useRef<HTMLDivElement>(null);
  const size = useTextSize(box, ruler);
  const measured = useMemo(() => new Heights(), [wrap, size.row, size.columns]);
  useEffect(() => measured.forgetBefore(rows[0]), [measured, rows[0]]);
  const offsets = useOffsets(rows, wrap, size, measured);
  const scroll = useScroll(box, rows, offsets, size.view);
  const pattern = useMemo(() => patternOf(search), [search]);
  const { first, end } = scroll.range();
  const list = useRef<HTMLDivElement>(null);
  const [, render] = useReducer<number, void>((count) => count + 1, 0);
  useLayoutEffect(() => {
    if (wrap && measure(list.current, rows.slice(first, end), offsets, first, measured)) {
      render();
    }
  });
  useEffect(() => {
    if (current !== undefined) {
      scroll.show(rows.indexOf(current));
    }
  }, [current]);
  const total = offsets[rows.length] ?? 0;
  const widest = useMemo(
    () => (wrap ? 0 : rows.reduce((most, line) => Math.max(most, line.text.length), 0)),
    [rows, wrap],
  );
  return (
    <div class="log-frame">
      <div
        ref={box}
        class={wrap ? "log wrap" : "log"}
        role="log"
        aria-live="off"
        aria-label={label}
        tabIndex={0}
        onScroll={scroll.onScroll}
        onWheel={(event) => event.deltaY < 0 && scroll.release()}
        onTouchMove={scroll.release}
        onKeyDown={(event) => ["ArrowUp", "PageUp", "Home"].includes(event.key) && scroll.release()}
      >
        <div class="log-size" style={{ height: `${total}px`, minWidth: wrap ? "0" : `${widest + 20}ch` }}>
          <div ref={list} class="log-rows" style={{ transform: `translateY(${offsets[first] ?? 0}px)` }}>
            {rows.slice(first, end).map((line) => (
              <LogRow key={line.seq} line={line} pattern={pattern} current={line === current} />
            ))}
          </div>
        </div>
        <div ref={ruler} class="log-row ruler" aria-hidden="true">
          <span class="at">
            00:00:00<span class="ms">.000</span>
          </span>
          <span class="message">
            <span>{messageProbe}</span>
          </span>
        </div>
      </div>
      {scroll.atEnd ? null : (
        <div class="log-newest">
          <Button icon="down" onClick={scroll.toEnd}>
            {scroll.newer === 0 ? "Jump to newest" : `Jump to newest (${formatNumber(scroll.newer)} more)`}
          </Button>
        </div>
      )}
    </div>
  );
}

/** Keeps the heights of rows that are not as high as their length suggests. It reports whether it found some. */
function measure(
  list: HTMLElement | null,
  shown: LogLine[],
  offsets: Offsets,
  first: number,
  measured: Heights,
): boolean {
  const before = measured.version;
  shown.forEach((line, i) => {
    const element = list?.children[i];
    if (element === undefined || measured.of(line) !== undefined) {
      return;
    }
    const { height } = element.getBoundingClientRect();
    const expected = (offsets[first + i + 1] ?? 0) - (offsets[first + i] ?? 0);
    if (Math.abs(height - expected) > 0.5) {
      measured.add(line, height);
    }
  });
  return measured.version > before;
}

/** What a person looks at: the end, or a row that stays where it is while others come and go. */
function useScroll(box: { current: HTMLElement | null }, rows: LogLine[], offsets: Offsets, view: number) {
  const [, render] = useReducer<number, void>((count) => count + 1, 0);
  const place = useRef({ atEnd: true, top: 0, anchor: 0, within: 0, newest: 0 }).current;
  const total = offsets[rows.length] ?? 0;
  const keepAnchor = (element: HTMLElement) => {
    const row = rowAt(offsets, element.scrollTop);
    place.anchor = rows[row]?.seq ?? 0;
    place.within = element.scrollTop - (offsets[row] ?? 0);
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) {
      return;
    }
    if (place.atEnd) {
      place.newest = rows.at(-1)?.seq ?? 0;
      element.scrollTop = element.scrollHeight;
    } else {
      const row = rows.findIndex((line) => line.seq >= place.anchor);
      const top = (offsets[Math.max(0, row)] ?? 0) + (rows[row]?.seq === place.anchor ? place.within : 0);
      if (Math.abs(top - element.scrollTop) > 1) {
        element.scrollTop = top;
      }
    }
    place.top = element.scrollTop;
  }, [rows, offsets, view]);
  return {
    atEnd: place.atEnd,
    newer: rows.length - 1 - rows.findLastIndex((line) => line.seq <= place.newest),
    /** The rows to render. */
    range: () => {
      const top = place.atEnd ? Math.max(0, total - view) : place.top;
      const first = Math.max(0, rowAt(offsets, top) - margin);
      return { first, end: Math.min(rows.length, rowAt(offsets, top + view) + margin + 1) };
    },
    onScroll: () => {
      const element = box.current;
      if (element === null) {
        return;
      }
      const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 4;
      if (place.atEnd && !atEnd) {
        place.newest = rows.at(-1)?.seq ?? 0;
      }
      place.atEnd = atEnd;
      place.top = element.scrollTop;
      keepAnchor(element);
      render();
    },
    /** Stops staying at the end, before the browser scrolls. */
    release: () => {
      const element = box.current;
      if (place.atEnd && element !== null && element.scrollHeight > element.clientHeight) {
        place.atEnd = false;
        place.newest = rows.at(-1)?.seq ?? 0;
        keepAnchor(element);
        render();
      }
    },
    show: (row: number) => {
      const element = box.current;
      if (element !== null && row >= 0) {
        place.atEnd = element.scrollHeight <= element.clientHeight;
        element.scrollTop = Math.max(0, (offsets[row] ?? 0) - element.clientHeight / 3);
        place.top = element.scrollTop;
        keepAnchor(element);
        render();
      }
    },
    toEnd: () => {
      place.atEnd = true;
      if (box.current !== null) {
        box.current.scrollTop = box.current.scrollHeight;
        box.current.focus();
      }
      render();
    },
  };
}
