import { isNotFound } from "@agents.example/client/error";
import type { DeletedResource, Deletion } from "@agents.example/client/schema";
import { useLive } from "../api/live";
import { type Column, RecordTable } from "../organization/table";
import { Button } from "../ui/button";
import { Failure } from "../ui/feedback";
import { saveFile } from "../ui/save-file";

const every = 5_000;
const quick = 1_500;

/** Follows the deletion of an agent. Only admins may read it. */
export const useDeletion = (id: string) =>
  useLive<Deletion>(`/api/v1/deletions/${encodeURIComponent(id)}`, {
    every,
    quick,
    changing: ({ status }) => status === "deleting",
    endsWhenGone: true,
  });

const names: Record<string, string> = {
  namespace: "Namespace",
  volume: "Volume",
  secrets: "Secrets",
  route: "Address",
  record: "Record",
};

/** What the agent consisted of, when each part was requested to be deleted, and when it was observed gone. */
export function Receipt({ id }: { id: string }) {
  const { data, error, refresh } = useDeletion(id);
  if (data === undefined) {
    return error === undefined || isNotFound(error) ? null : (
      <Failure error={error} title="The receipt of the deletion could not be read" retry={refresh} />
    );
  }
  const save = () => {
    const json = JSON.stringify(data, null, 2) + "\n";
    saveFile(new Blob([json], { type: "application/json" }), `deletion-${data.agent_id}.json`);
  };
  const deleted = data.status === "deleted";
  return (
    <section class="card receipt" aria-label="Receipt of the deletion">
      <div class="head">
        <h2>Receipt of the deletion</h2>
        {deleted ? (
          <span class="actions">
            <Button icon="download" onClick={save}>
              Download as JSON
            </Button>
          </span>
        ) : null}
      </div>
      <RecordTable label="Parts of the agent" columns={columns} rows={data.resources} id={({ name }) => name} />
      <div class="body">
        <p class="small quiet">
          {!deleted
            ? "The service repeats the deletion until it has seen that each part is gone."
            : data.receipt === null
              ? "The receipt is not signed. The service keeps it for 30 days."
              : "The file has a signature of these facts. The service keeps the receipt for 30 days."}
        </p>
      </div>
    </section>
  );
}

const columns: Column<DeletedResource>[] = [
  { head: "Part", cell: ({ name }) => <strong>{names[name] ?? name}</strong> },
  { head: "Deletion requested", cell: ({ requested_at }) => <Moment at={requested_at} /> },
  { head: "Observed gone", cell: ({ observed_gone_at }) => <Moment at={observed_gone_at} /> },
];

/** A receipt has exact times. */
const Moment = ({ at }: { at: string | null }) =>
  at === null ? (
    <span class="quiet">Not yet</span>
  ) : (
    <time datetime={at}>{new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC</time>
  );
