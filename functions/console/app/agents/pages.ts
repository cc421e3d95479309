import type { Agent } from "@agents.example/client/schema";
import { isChanging } from "../ui/status";
import { comparePlaces, type Place, placeOf } from "./order";

/** A page of the service's list. */
export interface Page {
  /** Where the page begins; absent for the first page. */
  cursor: string | undefined;
  /** The last agent of the page before. */
  after: Place | undefined;
  etag: string | null;
  ids: string[];
  /** When the page was last read, in milliseconds since 1970; 0 before. */
  read: number;
}

/** The agents of an organization, as far as they are known, and the pages that they came in. */
export class Pages {
  readonly agents = new Map<string, Agent>();
  list: Page[] = [newPage()];

  /** Whether every page was read. */
  get complete(): boolean {
    return this.list.every((page) => page.read > 0);
  }

  /** The agents, newest first. */
  sorted(): Agent[] {
    const placed = [...this.agents.values()].map((agent) => ({ agent, place: placeOf(agent) }));
    return placed.sort((a, b) => comparePlaces(a.place, b.place)).map(({ agent }) => agent);
  }

  /** The agents of a page that are on their way to another state. */
  changing(page: Page): Agent[] {
    const known = page.ids.map((id) => this.agents.get(id));
    return known.filter((agent): agent is Agent => agent !== undefined && isChanging(agent));
  }

  /** Begins again, because the service does not know a cursor any more. What is known stays until it is read again. */
  restart(): void {
    this.list = [newPage()];
  }

  /** Takes over what a page has, and forgets the agents of its part of the list that are gone. */
  replace(page: Page, found: Agent[], next: string | null): void {
    const last = found.at(-1);
    const end = next === null || last === undefined ? undefined : placeOf(last);
    const kept = new Set(found.map((agent) => agent.id));
    for (const agent of this.agents.values()) {
      const place = placeOf(agent);
      const after = page.after === undefined || comparePlaces(place, page.after) > 0;
      if (after && (end === undefined || comparePlaces(place, end) <= 0) && !kept.has(agent.id)) {
        this.agents.delete(agent.id);
      }
    }
    for (const agent of found) {
      this.agents.set(agent.id, agent);
    }
    page.ids = [...kept];
    this.connect(page, next, end);
  }

  /** Makes the next page begin where this one ends. */
  private connect(page: Page, next: string | null, end: Place | undefined): void {
    const index = this.list.indexOf(page);
    if (next === null || end === undefined) {
      this.list = this.list.slice(0, index + 1);
      return;
    }
    const following = this.list[index + 1] ?? newPage();
    if (following.cursor !== next) {
      // An agent before the page was created or deleted. The agents in between are known, so the page keeps its turn.
      Object.assign(following, { cursor: next, after: end, etag: null });
    }
    this.list[index + 1] = following;
  }
}

const newPage = (): Page => ({ cursor: undefined, after: undefined, etag: null, ids: [], read: 0 });
