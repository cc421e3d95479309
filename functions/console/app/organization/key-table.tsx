import type { APIKey, Me } from "@agents.example/client/schema";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Icon } from "../ui/icons";
import { Time, useNow } from "../ui/time";
import { purposeText, roleText } from "./key-purpose";
import { RecordTable, type Column } from "./table";

/** A key that expires within this time is marked. */
const soon = 7 * 24 * 3_600_000;

export function KeyTable(props: { keys: APIKey[]; me: Me; onRevoke: (key: APIKey) => void }) {
  const { keys, me, onRevoke } = props;
  const columns: Column<APIKey>[] = [
    { head: "Name", cell: (key) => <KeyName apiKey={key} own={key.id === me.api_key?.id} /> },
    { head: "Role", cell: (key) => roleText(key.role) },
    { head: "Begins with", cell: (key) => <code class="nowrap">{key.key_prefix}…</code> },
    { head: "Created", cell: (key) => <Created apiKey={key} keys={keys} me={me} /> },
    {
      head: "Last used",
      cell: (key) => (key.last_used_at === null ? <span class="quiet">Never</span> : <Time value={key.last_used_at} />),
    },
    { head: "Expires", cell: (key) => <Expiry at={key.expires_at} /> },
    {
      head: "Actions",
      actions: true,
      cell: (key) => (
        <Button icon="trash" onClick={() => onRevoke(key)}>
          Revoke<span class="visually-hidden"> {key.name}</span>
        </Button>
      ),
    },
  ];
  return <RecordTable label="API keys" columns={columns} rows={keys} id={(key) => key.id} />;
}

function KeyName({ apiKey, own }: { apiKey: APIKey; own: boolean }) {
  return (
    <div class="stack-tight named">
      <strong>{apiKey.name}</strong>
      <span class="small quiet">{purposeText(apiKey.purpose)}</span>
      {own ? (
        <span>
          <Badge tone="busy" icon="user" text="You are signed in with it" />
        </span>
      ) : null}
    </div>
  );
}

function Created({ apiKey, keys, me }: { apiKey: APIKey; keys: APIKey[]; me: Me }) {
  const parent = keys.find((key) => key.id === apiKey.created_by);
  return (
    <div class="stack-tight named">
      <Time value={apiKey.created_at} />
      <span class="small quiet">
        {apiKey.created_by === me.id && me.api_key === null ? (
          "by you"
        ) : parent !== undefined ? (
          `by the key “${parent.name}”`
        ) : (
          <>
            by <code title={apiKey.created_by}>{apiKey.created_by.slice(0, 8)}…</code>
          </>
        )}
      </span>
    </div>
  );
}

function Expiry({ at }: { at: string | null }) {
  const now = useNow();
  if (at === null) {
    return <span class="quiet">Never</span>;
  }
  const left = new Date(at).getTime() - now;
  if (left > soon) {
    return <Time value={at} date />;
  }
  return (
    <span class={`badge ${left > 0 ? "tone-warn" : "tone-bad"}`}>
      <Icon name="waiting" />
      {left > 0 ? <Time value={at} /> : "Expired"}
    </span>
  );
}
