import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useDownload } from "../api/download";
import { announce } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure, Notice } from "../ui/feedback";
import { formatBytes } from "../ui/format";
import { Moment } from "./moment";
import { saveExport } from "./snapshot-download";

/** Saves what a snapshot has as an archive on the person's computer, and shows how far that is. */
export function ExportSnapshot(props: { agent: Agent; snapshot: AgentSnapshot; onClose: () => void }) {
  const { agent, snapshot, onClose } = props;
  const [saved, setSaved] = useState(false);
  const { received, error, start, stop } = useDownload(async (signal, progress) => {
    const done = await saveExport(agent, snapshot, signal, progress);
    setSaved(done);
    if (done) {
      announce("The archive is saved.");
    }
  });
  const busy = received !== undefined;
  return (
    <Dialog
      title={`Export “${snapshot.name}”`}
      onClose={onClose}
      onSubmit={() => (busy ? undefined : start())}
      foot={
        <>
          <Button onClick={busy ? stop : onClose}>{busy ? "Stop" : "Close"}</Button>
          <Button kind="primary" type="submit" icon="download" busy={busy} autofocus>
            Download the archive
          </Button>
        </>
      }
    >
      <p>
        The archive is a tar file with what the volume held on{" "}
        <Moment value={snapshot.taken_at ?? snapshot.created_at} />, and a manifest. It has whatever the agent wrote,
        secrets among it, so keep it where only you can read it. A new agent can begin with it.
      </p>
      <p class="quiet small">
        The download begins after a moment, because the snapshot is made readable first. The agent is not touched.
      </p>
      {busy ? (
        <Notice tone="busy" live title={received === 0 ? "Preparing" : "Downloading"}>
          <span aria-live="off">{formatBytes(received)} received.</span>
        </Notice>
      ) : null}
      {saved && !busy && error === undefined ? (
        <Notice tone="good" live>
          The archive is saved.
        </Notice>
      ) : null}
      {error === undefined ? null : (
        <Failure error={error} retry={() => void start()} title="The snapshot was not exported" />
      )}
    </Dialog>
  );
}
