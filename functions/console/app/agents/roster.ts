import { isNotFound } from "@agents.example/client/error";
import type { Agent } from "@agents.example/client/schema";
import { call, ifChanged } from "../api/client";
import { serverNow } from "../api/clock";
import { CallError, asError } from "../api/errors";
import type { Live } from "../api/live";
import { alertTime, hiddenPace, pauseAfter, quickPace } from "../api/pace";
import { Store } from "../store";
import { type Page, Pages } from "./pages";
import { type Watch, Watches } from "./watches";

/** All agents of the organization, as far as they are loaded. */
export interface RosterState extends Live<Agent[]> {
  /** Whether every page was loaded once. */
  complete: boolean;
}

const path = "/api/v1/agents";
const limit = 100;

/** How often a page is read, in milliseconds. */
const pace = { quick: quickPace, busy: 2_000, shown: 5_000, other: 60_000, hidden: hiddenPace };

/** With more agents that change, their page is read instead of each of them. */
const many = 5;

/** The shortest time between two reads, in milliseconds, which keeps them below the service's limits. */
const between = { pages: 250, agents: 60 };

/** How many pages come without such a wait when the list loads. */
const burst = 20;

type Task = { at: number; page: Page } | { at: number; watch: Watch };

/**
 * Follows all agents of the organization. It reads agents that change often, pages on screen every few seconds, and the
 * other pages in turn. What did not change is answered without a body.
 */
export class Roster {
  readonly state: Store<RosterState>;
  private readonly pages = new Pages();
  private readonly watches = new Watches();
  private shown = new Set<string>();
  private followers = 0;
  private timer: number | undefined;
  private running: AbortController | undefined;
  private failures = 0;
  private quickUntil = 0;

  constructor() {
    const refresh = () => this.refresh();
    const unknown = { data: undefined, error: undefined, updated: undefined };
    this.state = new Store<RosterState>({ ...unknown, refresh, complete: false });
  }

  follow(): () => void {
    this.followers++;
    if (this.followers === 1) {
      document.addEventListener("visibilitychange", this.schedule);
      this.markShown();
      this.schedule();
    }
    return () => {
      this.followers--;
      if (this.followers === 0) {
        document.removeEventListener("visibilitychange", this.schedule);
        clearTimeout(this.timer);
        this.running?.abort();
        this.running = undefined;
      }
    };
  }

  /** Reads now what is on screen, and more often for a while. */
  refresh(): void {
    this.quickUntil = Date.now() + alertTime;
    this.failures = 0;
    this.markShown();
    this.schedule();
  }

  /** Shows an agent that another call brought, such as a new one. */
  put(agent: Agent): void {
    this.running?.abort(); // its answer may be older
    this.running = undefined;
    this.pages.agents.set(agent.id, agent);
    this.publish();
    this.refresh();
  }

  /** Says which agents are on screen. */
  show(ids: string[]): void {
    this.shown = new Set(ids);
    this.schedule();
  }

  /** Makes the pages on screen due. */
  private markShown(): void {
    for (const page of this.pages.list.filter((one) => this.isShown(one))) {
      page.read = 0;
    }
  }

  private isShown(page: Page): boolean {
    return page === this.pages.list[0] || page.ids.some((id) => this.shown.has(id));
  }

  private readonly schedule = (): void => {
    clearTimeout(this.timer);
    if (this.followers === 0 || this.running) {
      return; // the end of the read schedules the next one
    }
    const next = this.tasks().reduce((a, b) => (b.at < a.at ? b : a));
    this.timer = setTimeout(() => void this.run(next), Math.max(next.at - Date.now(), this.pause(next)));
  };

  private tasks(): Task[] {
    const alone = this.pages.list.map((page) => this.pages.changing(page)).filter(({ length }) => length <= many);
    this.watches.set(alone.flat());
    const pages = this.pages.list.map((page) => ({ at: page.read === 0 ? 0 : page.read + this.paceOf(page), page }));
    return document.visibilityState === "hidden" ? pages : [...pages, ...this.watches.due()];
  }

  private paceOf(page: Page): number {
    switch (true) {
      case document.visibilityState === "hidden":
        return pace.hidden;
      case this.isShown(page) && Date.now() < this.quickUntil:
        return pace.quick;
      case this.pages.changing(page).length > many:
        return pace.busy;
      default:
        return this.isShown(page) ? pace.shown : pace.other;
    }
  }

  /** The shortest wait before a task: next to none while the list loads, more after failures. */
  private pause(task: Task): number {
    const { error, complete } = this.state.value;
    if (error !== undefined && this.failures > 0) {
      return pauseAfter(this.failures, error);
    }
    if ("watch" in task) {
      return between.agents;
    }
    return complete || this.pages.list.length > burst ? between.pages : 0;
  }

  private async run(task: Task): Promise<void> {
    const running = new AbortController();
    this.running = running;
    let failure: CallError | undefined;
    try {
      await ("page" in task ? this.readPage(task.page, running.signal) : this.readAgent(task.watch, running.signal));
      this.failures = 0;
    } catch (error) {
      this.failures++;
      failure = asError(error);
    }
    if (!running.signal.aborted) {
      this.running = undefined;
      this.publish(failure);
      this.schedule();
    }
  }

  private async readPage(page: Page, signal: AbortSignal): Promise<void> {
    try {
      const query = { limit, cursor: page.cursor };
      const answer = await call<Agent[]>(path, { query, headers: ifChanged(page.etag), signal });
      page.read = Date.now();
      page.etag = answer.etag;
      if (answer.status !== 304 && !signal.aborted) {
        this.pages.replace(page, answer.data, answer.next);
      }
    } catch (error) {
      if (error instanceof CallError && error.status === 400) {
        this.pages.restart();
      }
      throw error;
    }
  }

  private async readAgent(watch: Watch, signal: AbortSignal): Promise<void> {
    try {
      const answer = await call<Agent>(`${path}/${watch.id}`, { headers: ifChanged(watch.etag), signal });
      watch.read = Date.now();
      if (answer.status !== 304 && !signal.aborted) {
        watch.changed = watch.etag === null ? watch.changed : watch.read;
        // The roster needs no link that opens the dashboard.
        this.pages.agents.set(watch.id, { ...answer.data, dashboard_handoff_url: null });
      }
      watch.etag = answer.etag;
    } catch (error) {
      if (isNotFound(error)) {
        this.pages.agents.delete(watch.id);
        return;
      }
      throw error;
    }
  }

  private publish(error?: CallError): void {
    const last = this.state.value;
    const complete = last.complete || this.pages.complete;
    if (error !== undefined) {
      this.state.set({ ...last, error, complete });
      return;
    }
    const now = this.pages.sorted();
    const same = last.data?.length === now.length && last.data.every((agent, i) => agent === now[i]);
    this.state.set({ ...last, data: same ? last.data : now, error: undefined, updated: serverNow(), complete });
  }
}
