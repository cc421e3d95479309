import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { formatBytes } from "../ui/format";
import { Icon } from "../ui/icons";
import { useNow } from "../ui/time";
import { Moment } from "./moment";
import { causeOf, consistencyText, lengthText, otherImage, snapshotState, waitsText } from "./snapshot-text";

/** What one can do with a snapshot. */
export type Act = "restore" | "copy" | "export" | "delete";

/** One snapshot: why and when it was taken, what it has, for how long it is kept, and what one can do with it. */
export function SnapshotRow(props: {
  agent: Agent;
  snapshot: AgentSnapshot;
  unavailable: string | undefined;
  onAct: (act: Act) => void;
}) {
  const { agent, snapshot } = props;
  const { name, image, size_bytes: bytes, status, problem } = snapshot;
  const { icon, text } = causeOf(snapshot);
  const state = snapshotState(snapshot);
  return (
    <li>
      <span class={`mark tone-${state.tone}`}>
        <Icon name={icon} />
      </span>
      <div class="what stack-tight">
        <div class="line">
          <h3>{name}</h3>
          <Badge {...state} />
        </div>
        <p>
          <When snapshot={snapshot} />
        </p>
        <p class="small quiet">
          {[text, bytes === null ? "" : formatBytes(bytes), image ?? ""].filter(Boolean).join(" · ")}
          {otherImage(agent, snapshot) === undefined ? "" : " (another version than now)"}
          <Expiry snapshot={snapshot} />
        </p>
        {status === "pending" ? <p class="small">{waitsText(snapshot)}</p> : null}
        {status === "failed" ? <p class="small problem">{problem ?? "Nothing is known about why."}</p> : null}
        {status === "ready" ? <p class="small quiet">{consistencyText(snapshot)}</p> : null}
      </div>
      <Acts {...props} />
    </li>
  );
}

/** The time whose data it has, or when it was asked for. */
function When({ snapshot: { taken_at, created_at } }: { snapshot: AgentSnapshot }) {
  const at = taken_at ?? created_at;
  const age = useNow() - Date.parse(at);
  return (
    <>
      {taken_at === null ? "Asked for " : ""}
      <Moment value={at} /> <span class="quiet">({age < 5_000 ? "just now" : `${lengthText(age)} ago`})</span>
    </>
  );
}

function Expiry({ snapshot: { status, cause, expires_at } }: { snapshot: AgentSnapshot }) {
  const now = useNow();
  if (status === "deleting") {
    return null;
  }
  const late = expires_at !== null && Date.parse(expires_at) < now;
  return (
    <>
      {status === "failed" ? " · listed until " : " · kept until "}
      {expires_at === null ? (
        "you delete it"
      ) : late && cause === "schedule" && status === "ready" ? (
        "a newer daily one is ready"
      ) : (
        <Moment value={expires_at} />
      )}
    </>
  );
}

function Acts({ snapshot, unavailable, onAct }: Parameters<typeof SnapshotRow>[0]) {
  const { name, status } = snapshot;
  const of = <span class="visually-hidden"> {name}</span>;
  if (status === "deleting") {
    return null;
  }
  return (
    <div class="acts row">
      {status === "ready" ? (
        <>
          <Button icon="back" unavailable={unavailable} onClick={() => onAct("restore")}>
            Restore{of}
          </Button>
          <Button kind="plain" icon="plus" unavailable={unavailable} onClick={() => onAct("copy")}>
            New agent from this{of}
          </Button>
          <Button kind="plain" icon="download" unavailable={unavailable} onClick={() => onAct("export")}>
            Export{of}
          </Button>
        </>
      ) : null}
      <Button kind="plain" icon="trash" iconOnly unavailable={unavailable} onClick={() => onAct("delete")}>
        {`Delete ${name}`}
      </Button>
    </div>
  );
}
