import type { Agent, AgentSnapshot, Plan } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { source } from "../agents/source";
import { useLive } from "../api/live";
import { plansPath } from "../organization/paths";
import { navigate, useRoute } from "../router";
import { Button } from "../ui/button";
import { Following } from "../ui/feedback";
import { CopyFacts } from "./copy-facts";
import { tabHref } from "./paths";
import { DeleteSnapshot } from "./snapshot-delete";
import { ExportSnapshot } from "./snapshot-export";
import { RestoreDialog } from "./snapshot-restore";
import { type Act, SnapshotRow } from "./snapshot-row";
import { TakeSnapshot } from "./snapshot-take";
import { summaryText } from "./snapshot-text";
import { useSnapshots } from "./use-snapshots";

/** What has a dialog on this page. */
type Asked = Exclude<Act, "copy">;

/** What the agent's volume held at several times, the newest first. */
export function SnapshotsTab({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const live = useSnapshots(agent);
  const [doing, setDoing] = useState<{ act: Asked; snapshot: AgentSnapshot }>();
  const sourceOf = (snapshot: AgentSnapshot) =>
    ({ agent, snapshot, facts: <CopyFacts agent={agent} snapshot={snapshot} /> });
  const taking = useRoute().query.has("take");
  const here = tabHref(agent.id, "snapshots");
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  return (
    <section class="card" aria-labelledby="snapshots-heading">
      <div class="head">
        <h2 id="snapshots-heading">Snapshots</h2>
        <span class="actions">
          <Button
            icon="plus"
            unavailable={unavailable}
            onClick={() => navigate(tabHref(agent.id, "snapshots", { take: "now" }))}
          >
            Take a snapshot
          </Button>
        </span>
      </div>
      <div class="body stack-tight">
        <Following live={live} what="the snapshots">
          {(snapshots) => <Summary agent={agent} snapshots={snapshots} />}
        </Following>
      </div>
      {live.data === undefined || live.data.length === 0 ? null : (
        <ol class="snapshots history">
          {live.data.map((snapshot) => (
            <SnapshotRow
              key={snapshot.id}
              agent={agent}
              snapshot={snapshot}
              unavailable={unavailable}
              onAct={(act) => (act === "copy" ? source.set(sourceOf(snapshot)) : setDoing({ act, snapshot }))}
            />
          ))}
        </ol>
      )}
      {doing === undefined ? null : <Acting agent={agent} {...doing} onClose={() => setDoing(undefined)} />}
      {taking && unavailable === undefined ? (
        <TakeSnapshot agent={agent} onClose={() => navigate(here, { replace: true })} />
      ) : null}
    </section>
  );
}

function Summary({ agent, snapshots }: { agent: Agent; snapshots: AgentSnapshot[] }) {
  const plans = useLive<Plan[]>(plansPath, { every: 300_000 });
  const plan = plans.data?.find(({ id }) => id === agent.resource_plan);
  return (
    <>
      <p class="number">{summaryText(agent, snapshots, plan).join("; ")}.</p>
      <p class="quiet small">
        {snapshots.length === 0
          ? "A snapshot keeps what the agent’s volume holds at a moment. The agent can go back to it, and new agents " +
            "can begin with it. One is taken before each update. "
          : ""}
        Snapshots are deleted with the agent. Export one to keep it longer.
      </p>
    </>
  );
}

/** The dialog of what a person wants to do with a snapshot. */
function Acting(props: { agent: Agent; act: Asked; snapshot: AgentSnapshot; onClose: () => void }) {
  const { act, agent, snapshot, onClose } = props;
  switch (act) {
    case "restore":
      return <RestoreDialog agent={agent} snapshot={snapshot} onClose={onClose} />;
    case "export":
      return <ExportSnapshot agent={agent} snapshot={snapshot} onClose={onClose} />;
    case "delete":
      return <DeleteSnapshot agent={agent} snapshot={snapshot} onClose={onClose} />;
  }
}
