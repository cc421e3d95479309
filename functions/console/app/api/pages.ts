import { useEffect, useMemo } from "preact/hooks";
import { call } from "./client";
import { serverNow } from "./clock";
import { asError } from "./errors";
import type { Live } from "./live";
import { hiddenPace, pauseAfter } from "./pace";
import { Store, useStore } from "../store";

/** A list that the service returns in pages. The pages that were read are shown as one list. */
export interface Pages<T> extends Live<T[]> {
  /** Whether the service has further items. */
  more: boolean;
  /** Whether a call is under way. */
  loading: boolean;
  loadMore: () => void;
}

const pageSize = 100;

type Query = Record<string, string | undefined>;

/** Items, and the cursor of those after them. */
interface Read<T> {
  items: T[];
  next: string | null;
}

class Loader<T> {
  readonly state: Store<Pages<T>>;
  every: number | undefined;
  private next: string | null = null;
  private running: AbortController | undefined;
  private followed = false;
  private timer: number | undefined;
  private failures = 0;

  constructor(
    private readonly path: string,
    private readonly query: Query,
  ) {
    this.state = new Store<Pages<T>>({
      data: undefined,
      error: undefined,
      updated: undefined,
      more: false,
      loading: false,
      refresh: () => this.reload(),
      loadMore: () => void this.load((signal) => this.readMore(signal)),
    });
  }

  start(): () => void {
    this.followed = true;
    document.addEventListener("visibilitychange", this.onVisible);
    this.reload();
    return () => {
      this.followed = false;
      document.removeEventListener("visibilitychange", this.onVisible);
      clearTimeout(this.timer);
      this.running?.abort();
    };
  }

  reload(): void {
    void this.load((signal) => this.readAgain(signal));
  }

  /** Reads the list again for a person who is back. While the page was hidden, that was seldom. */
  private readonly onVisible = () => {
    if (document.visibilityState === "visible" && this.isPolled && !this.state.value.loading) {
      this.reload();
    }
  };

  /** Whether the list is read now and then. A long one is not: a person may be in the middle of it. */
  private get isPolled(): boolean {
    return this.every !== undefined && (this.state.value.data?.length ?? 0) <= pageSize;
  }

  /** Reads the next page. */
  private async readMore(signal: AbortSignal): Promise<Read<T>> {
    const { items, next } = await this.read(this.next, signal);
    return { items: [...(this.state.value.data ?? []), ...items], next };
  }

  /** Reads as many items as are shown now, from the first page on. */
  private async readAgain(signal: AbortSignal): Promise<Read<T>> {
    let { items, next } = await this.read(null, signal);
    while (next !== null && items.length < (this.state.value.data?.length ?? 0)) {
      const page = await this.read(next, signal);
      items = [...items, ...page.items];
      next = page.next;
    }
    return { items, next };
  }

  private async read(cursor: string | null, signal: AbortSignal): Promise<Read<T>> {
    const query = { ...this.query, limit: pageSize, cursor: cursor ?? undefined };
    const answer = await call<T[]>(this.path, { query, signal });
    signal.throwIfAborted(); // another load began
    return { items: answer.data, next: answer.next };
  }

  private async load(read: (signal: AbortSignal) => Promise<Read<T>>): Promise<void> {
    if (!this.followed) {
      return; // a change that ended after its page was left would begin to poll for good
    }
    clearTimeout(this.timer);
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.state.set({ ...this.state.value, loading: true });
    try {
      const { items, next } = await read(running.signal);
      this.failures = 0;
      this.next = next;
      this.state.set({
        ...this.state.value,
        data: items,
        error: undefined,
        updated: serverNow(),
        more: next !== null,
        loading: false,
      });
    } catch (failure) {
      if (running.signal.aborted) {
        return;
      }
      this.failures++;
      this.state.set({ ...this.state.value, error: asError(failure), loading: false });
    }
    this.plan();
  }

  /** Asks again later: soon after a failure that may pass, and now and then if the list is followed. */
  private plan(): void {
    const { error } = this.state.value;
    if (error?.temporary) {
      this.timer = setTimeout(() => this.reload(), pauseAfter(this.failures, error));
    } else if (error === undefined && this.isPolled) {
      const pause = document.visibilityState === "hidden" ? hiddenPace : this.every;
      this.timer = setTimeout(() => this.reload(), pause);
    }
  }
}

/** Follows a list. Another path or query begins another list. */
export function usePages<T>(path: string, options: { query?: Query; every?: number } = {}): Pages<T> {
  const query = options.query ?? {};
  const loader = useMemo(() => new Loader<T>(path, query), [path, JSON.stringify(query)]);
  loader.every = options.every;
  useEffect(() => loader.start(), [loader]);
  return useStore(loader.state);
}
