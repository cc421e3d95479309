import type { Agent } from "@agents.example/client/schema";
import type { CallError } from "../api/errors";
import { href } from "../router";
import { Failure } from "../ui/feedback";
import { Status } from "../ui/status";
import { useAgents } from "./roster-hook";
import { elsewhere } from "./wrong";

/** To repeat a creation after a lost answer is safe: it has the same Idempotency-Key. */
const unknown = "It is not known whether the agent was created. Trying again is safe.";

/** Why the agent was not created, and what to do about it. */
export function CreationFailure({ error, busy }: { error: CallError; busy: boolean }) {
  switch (true) {
    case error.status === 402:
      return <NoRoom error={error} busy={busy} />;
    case error.status === 422 && elsewhere(error).length === 0:
      return <Failure error={inFields(error)} />;
    case error.status === 0 && !error.unsent:
      return <Failure error={error} retry="submit" busy={busy} title={unknown} />;
    default:
      return <Failure error={error} retry="submit" busy={busy} title="The agent was not created" />;
  }
}

/** A failure whose violations are shown at their fields. */
const inFields = (error: CallError): CallError => {
  const { length } = error.violations;
  return error.with(length === 1 ? "One field needs a change." : `${length} things need a change.`);
};

function NoRoom({ error, busy }: { error: CallError; busy: boolean }) {
  const limit = String(error.meta["limit"] ?? "");
  return (
    <>
      <Failure error={error} retry="submit" busy={busy} title="The agent was not created" />
      <RoomAdvice limit={limit} />
    </>
  );
}

/** What makes room below a limit of the plan. */
export function RoomAdvice({ limit }: { limit: string }) {
  return (
    <div class="stack-tight">
      {limit === "" || limit === "resource_plan" ? null : <Candidates limit={limit} />}
      <p>
        <a href={href(["billing"])}>{limit === "" ? "Go to billing" : "See larger plans"}</a>. What you typed stays
        here.
      </p>
    </div>
  );
}

const most = 3;

/** Agents that a person may want to give up, so that there is room. */
function Candidates({ limit }: { limit: string }) {
  const { data = [] } = useAgents();
  const byStop = limit === "cpu_cores" || limit === "memory_bytes";
  const found = candidates(data, byStop);
  if (found.length === 0) {
    return null;
  }
  return (
    <>
      <p>
        {byStop
          ? "Stopping or deleting one of these agents makes room:"
          : "Deleting one of these agents makes room. Stopping it is not enough:"}
      </p>
      <ul class="stack-tight">
        {found.map((agent) => (
          <li key={agent.id} class="row">
            <Status agent={agent} />
            <a href={href(["agents", agent.id])}>{agent.name}</a>
          </li>
        ))}
      </ul>
    </>
  );
}

function candidates(agents: Agent[], byStop: boolean): Agent[] {
  // A stopped agent keeps its slot and its storage, but no cores and no memory.
  const order = byStop ? ["paused", "error", "running"] : ["stopped", "error", "paused", "running"];
  const possible = agents.filter(({ status }) => order.includes(status));
  return possible.toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status)).slice(0, most);
}
