import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { LogLine } from "./log-line";

/** The size of characters and of the space for messages. */
export interface TextSize {
  /** The height of a row with one line, in pixels. */
  row: number;
  /** How many characters of a message fit into one line. */
  columns: number;
  /** The height of the view, in pixels. */
  view: number;
}

/** Measures the text in a box with the ruler, a row with messageProbe as its message. */
export function useTextSize(box: { current: HTMLElement | null }, ruler: { current: HTMLElement | null }): TextSize {
  const [size, setSize] = useState<TextSize>({ row: 20, columns: 80, view: 600 });
  useLayoutEffect(() => {
    const measure = () => {
      const message = ruler.current?.querySelector<HTMLElement>(".message");
      const probe = message?.firstElementChild;
      if (!ruler.current || !message || !probe) {
        return;
      }
      const character = probe.getBoundingClientRect().width / messageProbe.length;
      const columns = Math.max(1, Math.floor(message.clientWidth / character));
      const row = ruler.current.getBoundingClientRect().height;
      const view = box.current?.clientHeight ?? 0;
      setSize((old) => {
        const same = old.row === row && old.columns === columns && old.view === view;
        return same ? old : { row, columns, view };
      });
    };
    measure();
    const resized = new ResizeObserver(measure);
    if (box.current !== null) {
      resized.observe(box.current);
    }
    return () => resized.disconnect();
  }, []);
  return size;
}

export const messageProbe = "0000000000";

/** Where rows are: offsets has the top of each row, and the bottom of the last one. */
export type Offsets = Float64Array;

/** The heights of wrapped rows that were measured. */
export class Heights {
  /** Counts the heights that were ever added. */
  version = 0;
  private readonly known = new Map<number, number>();

  of(line: LogLine): number | undefined {
    return this.known.get(line.seq);
  }

  add(line: LogLine, height: number): void {
    this.known.set(line.seq, height);
    this.version++;
  }

  /** Forgets the rows before a line, so that a log that is followed for long does not fill the memory. */
  forgetBefore(line: LogLine | undefined): void {
    for (const seq of this.known.keys()) {
      if (line === undefined || seq < line.seq) {
        this.known.delete(seq);
      }
    }
  }
}

/** Places the rows. Wrapped rows have the height that was measured, or else one that their length suggests. */
export function useOffsets(rows: LogLine[], wrap: boolean, size: TextSize, measured: Heights): Offsets {
  const { row, columns } = size;
  // The version stands for the heights: they do not change after they were measured.
  return useMemo(() => {
    const offsets = new Float64Array(rows.length + 1);
    let top = 0;
    rows.forEach((line, i) => {
      offsets[i] = top;
      top += wrap ? (measured.of(line) ?? row * Math.max(1, Math.ceil(line.text.length / columns))) : row;
    });
    offsets[rows.length] = top;
    return offsets;
  }, [rows, wrap, row, columns, measured, measured.version]);
}

/** The index of the row at a height. */
export function rowAt(offsets: Offsets, height: number): number {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] ?? 0) <= height) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return Math.min(low, Math.max(0, offsets.length - 2));
}
