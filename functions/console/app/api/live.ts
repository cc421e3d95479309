import { isNotFound } from "@agents.example/client/error";
import { useEffect, useMemo } from "preact/hooks";
import { call, ifChanged } from "./client";
import { serverNow } from "./clock";
import { type CallError, asError } from "./errors";
import { alertTime, hiddenPace, pauseAfter, quickPace } from "./pace";
import { onSignOut } from "../session/session";
import { Store, useStore } from "../store";

/** The last known state of something on the service. */
export interface Live<T> {
  /** The last good answer; undefined before the first one. */
  data: T | undefined;
  /** Why the last call failed; undefined after a good one. */
  error: CallError | undefined;
  /** When the last good answer came, in milliseconds since 1970. */
  updated: number | undefined;
  /** Asks now, and more often for a while. */
  refresh: () => void;
}

export interface LiveOptions<T> {
  /** How often to ask, in milliseconds. */
  every?: number;
  /** Whether the thing is changing, so that it is worth asking often. */
  changing?: (data: T) => boolean;
  /** How often to ask while it is changing. The service limits how often one agent is read. */
  quick?: number;
  /** Whether the thing never comes back once the service has answered 404, so that it is not asked for again. */
  endsWhenGone?: boolean;
}

const usualPace = 5_000;

/** Polls one path for all components that follow it. It asks for the body only if it changed. */
class Poller<T> {
  readonly state: Store<Live<T>>;
  options: LiveOptions<T> = {};
  private followers = 0;
  private timer: number | undefined;
  private running: AbortController | undefined;
  private again = false;
  private etag: string | null = null;
  private failures = 0;
  private quickUntil = 0;

  constructor(private readonly path: string) {
    const refresh = () => this.refresh();
    this.state = new Store<Live<T>>({ data: undefined, error: undefined, updated: undefined, refresh });
  }

  get followed(): boolean {
    return this.followers > 0;
  }

  follow(): () => void {
    this.followers++;
    if (this.followers === 1) {
      document.addEventListener("visibilitychange", this.onVisible);
      void this.poll();
    }
    return () => {
      this.followers--;
      if (this.followers === 0) {
        document.removeEventListener("visibilitychange", this.onVisible);
        clearTimeout(this.timer);
        this.running?.abort();
        this.running = undefined;
      }
    };
  }

  refresh(): void {
    this.quickUntil = Date.now() + alertTime;
    this.again = true;
    if (this.followers > 0 && !this.running) {
      void this.poll();
    }
  }

  /** Replaces the state by an answer of another call, such as an action's. The next poll confirms it. */
  put(data: T): void {
    this.running?.abort(); // its answer may be older
    this.running = undefined;
    this.etag = null;
    this.state.set({ ...this.state.value, data, error: undefined, updated: serverNow() });
    this.refresh();
  }

  private readonly onVisible = () => {
    if (document.visibilityState === "visible" && !this.running) {
      void this.poll();
    }
  };

  private async poll(): Promise<void> {
    clearTimeout(this.timer);
    const running = new AbortController();
    this.running = running;
    this.again = false;
    try {
      const answer = await call<T>(this.path, { headers: ifChanged(this.etag), signal: running.signal });
      if (running.signal.aborted) {
        return;
      }
      this.failures = 0;
      this.etag = answer.etag;
      const data = answer.status === 304 ? this.state.value.data : answer.data;
      this.state.set({ ...this.state.value, data, error: undefined, updated: serverNow() });
    } catch (error) {
      if (running.signal.aborted) {
        return;
      }
      this.failures++;
      this.state.set({ ...this.state.value, error: asError(error) });
    }
    if (this.running === running) {
      this.running = undefined;
      if (this.options.endsWhenGone && isNotFound(this.state.value.error)) {
        return;
      }
      this.timer = setTimeout(() => void this.poll(), this.again ? 0 : this.pause());
    }
  }

  private pause(): number {
    const { data, error } = this.state.value;
    if (error) {
      return pauseAfter(this.failures, error);
    }
    if (document.visibilityState === "hidden") {
      return hiddenPace;
    }
    const changing = data !== undefined && this.options.changing?.(data);
    const { quick = quickPace, every = usualPace } = this.options;
    return changing || Date.now() < this.quickUntil ? quick : every;
  }
}

/** Kept after the last follower left, so that the back button shows the page immediately. */
const pollers = new Map<string, Poller<unknown>>();
const maxPollers = 100;

function pollerOf<T>(path: string): Poller<T> {
  let poller = pollers.get(path);
  if (poller) {
    pollers.delete(path); // the map is ordered by use
  } else {
    poller = new Poller<unknown>(path);
  }
  pollers.set(path, poller);
  for (const [oldest, { followed }] of pollers) {
    if (pollers.size <= maxPollers) {
      break;
    }
    if (!followed) {
      pollers.delete(oldest);
    }
  }
  return poller as Poller<T>;
}

/** Follows what the service says at a path. */
export function useLive<T>(path: string, options: LiveOptions<T> = {}): Live<T> {
  const poller = useMemo(() => pollerOf<T>(path), [path]);
  poller.options = options;
  useEffect(() => poller.follow(), [poller]);
  return useStore(poller.state);
}

/** Shows an answer that another call brought, such as the agent after an action. */
export function putLive<T>(path: string, data: T): void {
  pollerOf<T>(path).put(data);
}

/** Asks for everything under a path now, because a person changed it. */
export function refreshLive(prefix: string): void {
  for (const [path, poller] of pollers) {
    if (path.startsWith(prefix)) {
      poller.refresh();
    }
  }
}

/** Forgets what the last person saw, except for one path. */
export function forgetLive(except?: string): void {
  for (const path of pollers.keys()) {
    if (path !== except) {
      pollers.delete(path);
    }
  }
}

onSignOut(forgetLive);
