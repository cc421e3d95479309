import type { Agent } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { sentenceOf } from "../agents/wrong";
import { violationsAt } from "../api/errors";
import { useKnown } from "../api/known";
import { putLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { TextArea } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { changeAgent } from "./change";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";

/** The paths that anyone may request. */
export function PublicPaths({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [asking, setAsking] = useState(false);
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  const count = agent.public_paths.length;
  return (
    <section class="card" aria-label="Public paths">
      <div class="head">
        <h2>Public paths</h2>
        <span class="badge tone-idle">{count === 0 ? "None" : count}</span>
      </div>
      <div class="body stack">
        <p>
          Anyone may request these paths of the agent without a credential: chat networks that deliver messages, and
          apps that bring their own. The agent’s program must check who calls. Its image may have more of them.
        </p>
        {count === 0 ? null : (
          <ul aria-label="Public paths">
            {agent.public_paths.map((path) => (
              <li key={path}>
                <code>{path}</code>
              </li>
            ))}
          </ul>
        )}
        <div class="row">
          <Button onClick={() => setAsking(true)} unavailable={unavailable}>
            Change the public paths
          </Button>
        </div>
        {asking ? <PathsDialog agent={agent} onClose={() => setAsking(false)} /> : null}
      </div>
    </section>
  );
}

function PathsDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const [opened] = useState(agent.public_paths.join("\n"));
  const [text, setText] = useState(opened);
  const paths = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const body = { public_paths: paths };
  const isMade = useKnown(
    agent.public_paths,
    "The public paths were changed by someone else while you looked at them.",
  );
  const submit = useSubmit(async () => {
    const bodyOf = (now: Agent) => (isMade(now.public_paths, paths) ? undefined : body);
    putLive(agentPath(agent.id), await changeAgent(agent.id, bodyOf));
    toast("The public paths were changed.");
    onClose();
  });
  return (
    <Dialog
      title="Which paths are public?"
      onClose={onClose}
      typed={text !== opened}
      onSubmit={submit.send}
      action={
        <Button kind="primary" type="submit" busy={submit.busy}>
          Save
        </Button>
      }
    >
      <TextArea
        label="Public paths"
        mono
        value={text}
        onInput={setText}
        placeholder="/hooks/"
        hint="One on each line. A path that ends with a slash stands for everything below it."
        wrong={violationsAt(submit.error, "public_paths").map(sentenceOf)}
      />
      <p class="quiet">The pod is replaced: the agent does not answer for some seconds.</p>
      {submit.busy || submit.error !== undefined ? null : (
        <Forecast change={{ path: agentPath(agent.id), method: "PATCH", body }} asOf={agent.status} />
      )}
      <SubmitFailure submit={submit} title="The public paths were not changed" retry="submit" />
    </Dialog>
  );
}
