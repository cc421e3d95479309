import type { DiagnosisMoment } from "@agents.example/client/schema";
import { Time } from "../ui/time";
import { tabHref } from "./paths";

/** How many moments are shown. The history has all. */
const most = 10;

/** What led to the present situation, the newest first. It is open while there is a problem. */
export function Moments(props: { agentID: string; moments: DiagnosisMoment[]; open: boolean }) {
  const { agentID, moments, open } = props;
  if (moments.length === 0) {
    return null;
  }
  return (
    <details class="moments" open={open}>
      <summary>What happened before</summary>
      <ol>
        {moments
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
      {moments.length > most ? <a href={tabHref(agentID, "history")}>See the whole history</a> : null}
    </details>
  );
}
