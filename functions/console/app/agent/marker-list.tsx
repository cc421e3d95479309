import type { Agent } from "@agents.example/client/schema";
import { useReadOnly } from "../account";
import { ClockTime } from "./moment";
import type { Marker } from "./markers";
import { tabHref } from "./paths";

/** How many markers are named. The charts have all. */
const most = 8;

export const isoOf = (seconds: number): string => new Date(seconds * 1_000).toISOString();

/** The log from shortly before a time, in Unix seconds. */
export const logHref = (id: string, seconds: number): string =>
  tabHref(id, "logs", { since: isoOf(Math.floor(seconds) - 30) });

/** The markers of the charts in words, the newest first. */
export function MarkerList({ agent, markers }: { agent: Agent; markers: Marker[] }) {
  const admin = useReadOnly() === undefined;
  if (markers.length === 0) {
    return null;
  }
  return (
    <section class="card" aria-label="What happened in this window">
      <ol class="markers small">
        {markers
          .slice(-most)
          .reverse()
          .map(({ at, tone, texts }) => (
            <li key={at}>
              <span class={`dot tone-${tone}`} aria-hidden="true" />
              <ClockTime value={isoOf(at)} />
              <a href={tabHref(agent.id, "history", { at: isoOf(at) })}>{texts.join(", ")}</a>
              {admin ? <a href={logHref(agent.id, at)}>Log</a> : null}
            </li>
          ))}
      </ol>
    </section>
  );
}
