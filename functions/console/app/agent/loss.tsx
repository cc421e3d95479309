import { useNow } from "../ui/time";
import { Moment } from "./moment";
import { lengthText } from "./snapshot-text";

/** For how long the service keeps what a restore replaces. */
const kept = 7 * 24 * 60 * 60_000;

/** Says which data a change takes from the agent, and what becomes of it. */
export function Loss({ since }: { since: string }) {
  const now = useNow();
  return (
    <>
      <dt>What is replaced</dt>
      <dd>
        Everything that the agent wrote since{" "}
        <strong>
          <Moment value={since} />
        </strong>{" "}
        ({lengthText(now - Date.parse(since))}). The present data is kept as a snapshot until{" "}
        <Moment value={new Date(now + kept).toISOString()} />.
      </dd>
    </>
  );
}
