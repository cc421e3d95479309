import type { Diagnosis, DiagnosisMoment } from "@agents.example/client/schema";
import { Time } from "../ui/time";
import { tabHref } from "./paths";

/** How many moments are shown. The history has all. */
const most = 5;

/** What led to the present situation, the newest first. */
export function Moments({ agentID, diagnosis }: { agentID: string; diagnosis: Diagnosis }) {
  const telling = tellingOf(diagnosis);
  if (telling.length === 0) {
    return null;
  }
  return (
    <details class="moments">
      <summary>What happened before</summary>
      <ol>
        {telling
          .slice(-most)
          .reverse()
          .map(({ at, type, message }) => (
            <li key={at + type + message}>
              <span class="small quiet">
                <Time value={at} />
              </span>
              <span>{message}</span>
            </li>
          ))}
      </ol>
      <a href={tabHref(agentID, "history")}>See the whole history</a>
    </details>
  );
}

/** Steps of the control plane. Those that failed are causes or errors as well. */
const steps = ["agent.stage_changed", "agent.updated", "secret_operation.stored"];

/** The moments that a person has to know, without the last failure, which the card is about. */
export function tellingOf({ status, timeline }: Pick<Diagnosis, "status" | "timeline">): DiagnosisMoment[] {
  const telling = timeline.filter(({ type }) => !steps.includes(type));
  return status === "error" && telling.at(-1)?.type === "agent.error" ? telling.slice(0, -1) : telling;
}
