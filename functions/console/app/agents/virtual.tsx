import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows beyond the edges of the window, so that scrolling and the Tab key find the next ones. */
const margin = 6;

interface Range {
  first: number;
  /** The row after the last one. */
  end: number;
}

/**
 * Rows of a table of which only those on screen are in the document. The row with the focus stays there. The arrow
 * keys, Home, End, Page Up and Page Down move the focus between rows.
 */
export function VirtualRows<T>(props: {
  items: T[];
  keyOf: (item: T) => string;
  /** The cells of a row. One of them has a link or a button, which gets the focus. */
  children: (item: T) => ComponentChildren;
  /** Says which rows are on screen. */
  onShown: (keys: string[]) => void;
}) {
  const { items, keyOf, children, onShown } = props;
  const body = useRef<HTMLDivElement>(null);
  const ruler = useRef<HTMLDivElement>(null);
  const height = useHeight(ruler);
  const range = useRange(body, height, items.length);
  const [active, setActive] = useState<string>();
  const wanted = useRef<string | undefined>(undefined);

  useLayoutEffect(() => {
    if (wanted.current !== undefined && wanted.current === active) {
      wanted.current = undefined;
      focusRow(body.current, active);
    }
  }, [active]);

  const shown = indexes(range, active === undefined ? -1 : items.findIndex((item) => keyOf(item) === active));
  const keys = items.slice(range.first, range.end).map(keyOf).join(" ");
  useEffect(() => onShown(keys === "" ? [] : keys.split(" ")), [keys]);

  const onKeyDown = (event: KeyboardEvent) => {
    const current = items.findIndex((item) => keyOf(item) === rowKey(event.target));
    const page = Math.max(1, Math.floor(innerHeight / Math.max(height, 1)) - 2);
    const next = target(event, current, page, items.length);
    const item = next === undefined ? undefined : items[next];
    if (item === undefined) {
      return;
    }
    event.preventDefault();
    const key = keyOf(item);
    wanted.current = key;
    setActive(key);
    focusRow(body.current, key); // it may be on screen already
  };

  return (
    <div
      class="rows"
      role="rowgroup"
      ref={body}
      style={{ "--rows": `${items.length}` }}
      onKeyDown={onKeyDown}
      onFocusIn={(event) => setActive(rowKey(event.target))}
      onFocusOut={(event) => body.current?.contains(event.relatedTarget as Node | null) || setActive(undefined)}
    >
      <div class="row-ruler" ref={ruler} aria-hidden="true" />
      {shown.map((index) => {
        const item = items[index] as T;
        return (
          <div
            key={keyOf(item)}
            class="item"
            role="row"
            aria-rowindex={index + 2}
            data-key={keyOf(item)}
            style={{ "--index": `${index}` }}
          >
            {children(item)}
          </div>
        );
      })}
    </div>
  );
}

/** The rows to render: those on screen, and the one with the focus. */
function indexes({ first, end }: Range, focused: number): number[] {
  const list = Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
  if (focused >= 0 && focused < first) {
    return [focused, ...list];
  }
  return focused >= end ? [...list, focused] : list;
}

function target(event: KeyboardEvent, current: number, page: number, count: number): number | undefined {
  if (current < 0 || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) {
    return undefined;
  }
  const moves: Record<string, number> = {
    ArrowDown: current + 1,
    ArrowUp: current - 1,
    PageDown: current + page,
    PageUp: current - page,
    Home: 0,
    End: count - 1,
  };
  const next = moves[event.key];
  return next === undefined ? undefined : Math.min(Math.max(next, 0), count - 1);
}

const rowKey = (element: EventTarget | null): string | undefined =>
  element instanceof Element ? element.closest<HTMLElement>("[data-key]")?.dataset["key"] : undefined;

function focusRow(body: HTMLElement | null, key: string): void {
  body?.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"] :is(a, button)`)?.focus();
}

/** The height of a row in pixels, which depends on the width of the window and the size of the text. */
function useHeight(ruler: { current: HTMLElement | null }): number {
  const [height, setHeight] = useState(0);
  useLayoutEffect(() => {
    const element = ruler.current;
    if (element === null) {
      return;
    }
    const measure = () => setHeight(element.getBoundingClientRect().height);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return height;
}

/** Which rows are on screen. */
function useRange(body: { current: HTMLElement | null }, height: number, count: number): Range {
  const [range, setRange] = useState<Range>({ first: 0, end: 0 });
  useLayoutEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = height === 0 ? 0 : Math.floor(-top / height) - margin;
      const end = height === 0 ? 0 : Math.ceil((innerHeight - top) / height) + margin;
      const next = { first: clamp(first, count), end: clamp(end, count) };
      setRange((last) => (last.first === next.first && last.end === next.end ? last : next));
    };
    const onMove = () => {
      frame ||= requestAnimationFrame(measure);
    };
    measure();
    addEventListener("scroll", onMove, { passive: true });
    addEventListener("resize", onMove);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", onMove);
      removeEventListener("resize", onMove);
    };
  }, [height, count]);
  return { first: Math.min(range.first, count), end: Math.min(range.end, count) };
}

const clamp = (value: number, most: number): number => Math.min(Math.max(value, 0), most);
