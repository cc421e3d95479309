import type { Agent, AgentImage, Image } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { imagesPath, selectionOf, versionLabel } from "../agents/image-choice";
import { useLive } from "../api/live";
import { Button, LinkButton } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { Select } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { policyText, windowText } from "./image-text";
import { agentPath, tabHref } from "./paths";
import { Forecast } from "./rehearsal";
import { UpdatesDialog } from "./updates";
import { useAgentChange } from "./use-change";

/** The image that the agent runs, as the catalog describes it. */
function useImage({ image }: Agent): Image | undefined {
  const images = useLive<Image[]>(imagesPath, { every: 60_000 });
  return images.data?.find(({ id }) => id === image?.id);
}

/** Says that there is a newer version, on the agent's first page. */
export function NewVersion({ agent }: { agent: Agent }) {
  const version = agent.image?.available_version;
  return typeof version !== "string" || agent.status === "deleting" ? null : (
    <Notice tone="idle" actions={<LinkButton href={tabHref(agent.id, "settings")}>See what changed</LinkButton>}>
      Version {version} of its image is available.
    </Notice>
  );
}

/** What the agent runs, and when it takes another version. */
export function Software({ agent }: { agent: Agent }) {
  const described = useImage(agent);
  return (
    <section class="card" aria-label="Image">
      <div class="head">
        <h2>Image</h2>
        {agent.image === null ? null : <span class="badge tone-idle">{agent.image.version}</span>}
      </div>
      <div class="body stack">
        {agent.image === null ? (
          <p class="quiet">The agent takes an image when it starts the next time.</p>
        ) : (
          <Running agent={agent} image={agent.image} described={described} />
        )}
      </div>
    </section>
  );
}

function Running({ agent, image, described }: { agent: Agent; image: AgentImage; described: Image | undefined }) {
  const readOnly = useReadOnly();
  const [dialog, setDialog] = useState<"" | "version" | "updates">("");
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  const custom = image.id === "custom";
  const close = () => setDialog("");
  const notes = described?.versions.find(({ version }) => version === image.available_version)?.notes;
  const choices = described?.versions.length ?? 0;
  return (
    <>
      <dl class="facts">
        <dt>Image</dt>
        <dd>{custom ? "An image of your own" : (described?.name ?? image.id)}</dd>
        <dt>Version</dt>
        <dd>{image.version}</dd>
        <dt>Digest</dt>
        <dd>
          <code>{image.digest ?? "Not known"}</code>
        </dd>
        <dt>Updates</dt>
        <dd>{custom ? "Only through the API, by its digest" : policyText(image.policy)}</dd>
        {image.maintenance_window === null ? null : (
          <>
            <dt>Maintenance window</dt>
            <dd>{windowText(image.maintenance_window)}</dd>
          </>
        )}
      </dl>
      {image.available_version === null ? null : (
        <Notice tone="idle" title={`Version ${image.available_version} is available`}>
          {notes === undefined || notes === "" ? "The operator of the service has released it." : notes}
        </Notice>
      )}
      {custom ? null : (
        <div class="row">
          <Button
            kind={image.available_version === null ? "normal" : "primary"}
            onClick={() => setDialog("version")}
            unavailable={choices > 1 || image.available_version !== null ? unavailable : "There is no other version."}
          >
            {image.available_version === null ? "Change the version" : `Update to ${image.available_version}`}
          </Button>
          <Button onClick={() => setDialog("updates")} unavailable={unavailable}>
            Change when it updates
          </Button>
        </div>
      )}
      {dialog === "version" && described !== undefined ? (
        <VersionDialog agent={agent} image={described} onClose={close} />
      ) : null}
      {dialog === "updates" ? <UpdatesDialog agent={agent} image={image} onClose={close} /> : null}
    </>
  );
}

function VersionDialog({ agent, image, onClose }: { agent: Agent; image: Image; onClose: () => void }) {
  const [present] = useState(agent.image?.version ?? ""); // also if the answer is lost and the agent moves
  const others = image.versions.filter(({ version }) => version !== present);
  const [chosen, setChosen] = useState(agent.image?.available_version ?? others[0]?.version ?? "");
  const version = others.find((one) => one.version === chosen) ?? others[0];
  const body = { image: version === undefined ? image.id : selectionOf(image, version.version) };
  const change = { path: agentPath(agent.id), method: "PATCH", body } as const;
  const submit = useAgentChange(
    change,
    (changed) => `The agent moves to version ${changed.image?.version ?? ""}.`,
    onClose,
  );
  const runs = ["running", "provisioning", "pending", "error"].includes(agent.status);
  return (
    <Dialog
      title="Move to another version?"
      onClose={onClose}
      onSubmit={submit.send}
      action={
        <Button
          kind="primary"
          type="submit"
          busy={submit.busy}
          unavailable={version === undefined ? "There is no other version." : undefined}
          autofocus
        >
          Move to {version?.version ?? "it"}
        </Button>
      }
    >
      <Select
        label="Version"
        value={version?.version ?? ""}
        options={others.map((one) => ({ value: one.version, label: versionLabel(image, one) }))}
        onChange={setChosen}
        hint={version?.notes === "" ? "The operator of the service says nothing about it." : version?.notes}
      />
      <dl class="costs">
        <dt>What happens</dt>
        <dd>
          {runs
            ? "The pod is replaced by one of the version."
            : "The agent runs the version when it starts the next time."}
          {agent.image?.policy === "pinned"
            ? ""
            : " The next start takes the released version in place of an older one: pin the agent to keep it."}
        </dd>
        <dt>What stays</dt>
        <dd>The volume, the address and the credentials stay. So do the files in it, whatever wrote them.</dd>
      </dl>
      {submit.busy || version === undefined ? null : <Forecast change={change} asOf={agent.status} />}
      <SubmitFailure submit={submit} title="The version was not changed" retry="submit" />
    </Dialog>
  );
}
