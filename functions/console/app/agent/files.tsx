import type { Agent, AgentFile, AgentFileSpec } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import type { CallError } from "../api/errors";
import { putLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Select, TextArea, TextField } from "../ui/field";
import { formatBytes } from "../ui/format";
import { SubmitFailure } from "../ui/submit-failure";
import { changeAgent } from "./change";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { acceptedText, costOf, unchangeable } from "./variable-cost";

type Doing = { kind: "set"; file?: AgentFile } | { kind: "remove"; file: AgentFile };

/** The files that the agent finds when it starts. */
export function Files({ agent }: { agent: Agent }) {
  const [doing, setDoing] = useState<Doing>();
  const close = () => setDoing(undefined);
  const unavailable = unchangeable(agent);
  return (
    <section class="card" aria-labelledby="files-heading">
      <div class="head">
        <h2 id="files-heading">Files</h2>
        <span class="small quiet">The agent finds them when it starts. The API never shows contents.</span>
      </div>
      {agent.files.length === 0 ? (
        <p class="body quiet">The agent has no files.</p>
      ) : (
        <ul class="names">
          {agent.files.map((file) => (
            <li key={file.path}>
              <code class="name">{file.path}</code>
              <span class="state small quiet">
                {file.secret === null ? formatBytes(file.size ?? 0) : `the secret ${file.secret}`}, {file.mode}
              </span>
              <span class="actions">
                <Button
                  kind="plain"
                  icon="pencil"
                  iconOnly
                  unavailable={unavailable}
                  onClick={() => setDoing({ kind: "set", file })}
                >
                  {`Replace ${file.path}`}
                </Button>
                <Button
                  kind="plain"
                  icon="trash"
                  iconOnly
                  unavailable={unavailable}
                  onClick={() => setDoing({ kind: "remove", file })}
                >
                  {`Remove ${file.path}`}
                </Button>
              </span>
            </li>
          ))}
        </ul>
      )}
      <div class="body row">
        <Button icon="plus" unavailable={unavailable} onClick={() => setDoing({ kind: "set" })}>
          Add a file
        </Button>
      </div>
      {doing?.kind === "set" ? <SetFile agent={agent} file={doing.file} onClose={close} /> : null}
      {doing?.kind === "remove" ? <RemoveFile agent={agent} file={doing.file} onClose={close} /> : null}
    </section>
  );
}

/** All files but one: a file of which only the path is sent stays as it is. */
const others = (agent: Agent, path: string): AgentFileSpec[] =>
  agent.files.filter((file) => file.path !== path).map((file) => ({ path: file.path }));

/** Changes one file. The list is one value, so the change is based on the present one. */
const change = (id: string, path: string, file: AgentFileSpec | undefined): Promise<Agent> =>
  changeAgent(id, (current) => ({ files: [...others(current, path), ...(file === undefined ? [] : [file])] }));

/** What a file has: the text that the service keeps and never shows, another text, or, with a prefix, a secret. */
const kept = "kept";
const text = "text";
const secretPrefix = "secret:";

function contentOf(source: string, content: string): Pick<AgentFileSpec, "content" | "secret"> {
  if (source.startsWith(secretPrefix)) {
    return { secret: source.slice(secretPrefix.length) };
  }
  return source === text ? { content } : {};
}

function SetFile(props: { agent: Agent; file: AgentFile | undefined; onClose: () => void }) {
  const { agent, file, onClose } = props;
  const secrets = Object.keys(agent.env_vars).filter((key) => agent.env_vars[key] === "gsm");
  const start = file?.path ?? "/data/";
  const [path, setPath] = useState(start);
  const given = file === undefined ? text : file.secret === null ? kept : secretPrefix + file.secret;
  const [source, setSource] = useState(given);
  const [content, setContent] = useState("");
  const [mode, setMode] = useState(file?.mode ?? "0644");
  const submit = useSubmit(async () => {
    const spec: AgentFileSpec = { path, mode, ...contentOf(source, content) };
    putLive(agentPath(agent.id), await change(agent.id, path, spec));
    toast(acceptedText(agent));
    onClose();
  });
  const [present] = useState(agent.files.map((one) => one.path)); // not one whose answer was lost
  const taken = file === undefined && present.includes(path);
  const wrong = taken ? ["The agent has this file. Replace it in the list of files."] : sentences(submit.error);
  return (
    <Dialog
      title={file === undefined ? "Add a file" : `Replace ${file.path}`}
      onClose={onClose}
      typed={content !== "" || path !== start}
      onSubmit={() => (taken ? undefined : void submit.send())}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          Save
        </Button>
      }
    >
      {file === undefined ? (
        <TextField
          label="Path"
          value={path}
          onInput={setPath}
          hint="Below /data, the agent’s volume, or below /config, which is read-only."
          wrong={wrong}
          maxLength={256}
          required
          mono
        />
      ) : null}
      <Select
        label="What is in it"
        value={source}
        onChange={setSource}
        options={[
          ...(given === kept ? [{ value: kept, label: "The present text" }] : []),
          { value: text, label: given === kept ? "Another text" : "A text" },
          ...secrets.sort().map((key) => ({ value: secretPrefix + key, label: `The secret ${key}` })),
        ]}
        wrong={file === undefined ? [] : wrong}
      />
      {source === text ? (
        <TextArea
          label="Text"
          value={content}
          onInput={setContent}
          hint={file === undefined ? undefined : "It replaces what is in the file. Without a text, the file is empty."}
          rows={8}
          mono
        />
      ) : null}
      <TextField label="Permissions" value={mode} onInput={setMode} hint="Octal digits." maxLength={4} mono />
      <p class="small quiet">{costOf(agent)}</p>
      {wrong.length > 0 ? null : <SubmitFailure submit={submit} title="The file was not saved" retry="submit" />}
    </Dialog>
  );
}

const sentences = (error: CallError | undefined): string[] =>
  (error?.violations ?? []).filter(({ loc }) => loc[1] === "files").map(({ msg }) => msg);

function RemoveFile({ agent, file, onClose }: { agent: Agent; file: AgentFile; onClose: () => void }) {
  const submit = useSubmit(async () => {
    putLive(agentPath(agent.id), await change(agent.id, file.path, undefined));
    toast(`${file.path} is removed.`);
    onClose();
  });
  const body = { files: others(agent, file.path) };
  return (
    <Dialog
      title={`Remove ${file.path}?`}
      onClose={onClose}
      onSubmit={() => void submit.send()}
      careful
      action={
        <Button kind="danger" type="submit" icon="trash" busy={submit.busy}>
          Remove the file
        </Button>
      }
    >
      <dl class="costs">
        <dt>What happens</dt>
        <dd>
          {file.path.startsWith("/data/")
            ? "The agent is not given the file again. What was written stays on its volume."
            : "The agent does not find the file any more. The service does not keep its content."}
        </dd>
        <dt>Downtime</dt>
        <dd>{costOf(agent)}</dd>
      </dl>
      {submit.busy ? null : (
        <Forecast change={{ path: agentPath(agent.id), method: "PATCH", body }} asOf={agent.status} />
      )}
      <SubmitFailure submit={submit} title={`${file.path} was not removed`} />
    </Dialog>
  );
}
