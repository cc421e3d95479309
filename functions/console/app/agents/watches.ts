import type { Agent } from "@agents.example/client/schema";
import { quickPace } from "../api/pace";

/** An agent that is read alone, because it is on its way to another state. */
export interface Watch {
  id: string;
  etag: string | null;
  /** When it was last read, and when it was last seen to change, in milliseconds since 1970. */
  read: number;
  changed: number;
}

/** How often an agent is read, by how long ago it changed, in milliseconds. */
const paces = [
  { until: 60_000, pace: quickPace },
  { until: 600_000, pace: 2_000 },
  { until: Infinity, pace: 10_000 },
];

/** The agents that are read alone. */
export class Watches {
  private readonly watches = new Map<string, Watch>();

  /** Watches these agents, and no others. */
  set(agents: Agent[]): void {
    const ids = new Set(agents.map((agent) => agent.id));
    for (const id of this.watches.keys()) {
      if (!ids.has(id)) {
        this.watches.delete(id);
      }
    }
    for (const id of ids) {
      if (!this.watches.has(id)) {
        this.watches.set(id, { id, etag: null, read: Date.now(), changed: Date.now() });
      }
    }
  }

  /** When each is due. */
  due(): { watch: Watch; at: number }[] {
    const now = Date.now();
    return [...this.watches.values()].map((watch) => {
      const age = now - watch.changed;
      const pace = paces.find(({ until }) => age < until)?.pace ?? 0;
      return { watch, at: watch.read + pace };
    });
  }
}
