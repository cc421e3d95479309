import type { Agent } from "@agents.example/client/schema";
import { useEffect, useRef, useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { call } from "../api/client";
import { CallError, asError, violationsAt } from "../api/errors";
import { putLive } from "../api/live";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Failure, Notice } from "../ui/feedback";
import { TextField } from "../ui/field";
import { agentPath } from "./paths";

/** The agent's name, which an admin can change in place. */
export function Name({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [editing, setEditing] = useState(false);
  const heading = useRef<HTMLDivElement>(null);
  const unavailable = agent.status === "deleting" ? "The agent is being deleted." : readOnly;
  const close = () => {
    setEditing(false);
    requestAnimationFrame(() => heading.current?.querySelector("button")?.focus());
  };
  if (editing) {
    return <NameForm agent={agent} onClose={close} />;
  }
  return (
    <div class="agent-name" ref={heading}>
      <h1 tabIndex={-1}>{agent.name}</h1>
      <Button kind="plain" icon="pencil" iconOnly onClick={() => setEditing(true)} unavailable={unavailable}>
        Rename the agent
      </Button>
    </div>
  );
}

/** Another person changed the name while this one typed. */
interface Conflict {
  name: string;
}

function NameForm({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const [typed, setTyped] = useState(agent.name);
  const [seen, setSeen] = useState(agent.name);
  const [conflict, setConflict] = useState<Conflict>();
  const [error, setError] = useState<CallError>();
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    const input = form.current?.querySelector("input");
    input?.focus();
    input?.select();
  }, []);
  const save = async (over: string) => {
    if (busy) {
      return;
    }
    if (typed.trim() === over) {
      onClose();
      return;
    }
    setBusy(true);
    try {
      const result = await rename(agent.id, over, typed.trim());
      setError(undefined);
      if ("conflict" in result) {
        setConflict({ name: result.conflict });
        setSeen(result.conflict);
        return;
      }
      putLive(agentPath(agent.id), result.agent);
      toast(`The agent is called “${result.agent.name}” now.`);
      onClose();
    } catch (cause) {
      setError(asError(cause));
    } finally {
      setBusy(false);
    }
  };
  const wrong = violationsAt(error, "name").map((violation) => violation.msg);
  return (
    <form
      class="rename"
      ref={form}
      onSubmit={(event) => {
        event.preventDefault();
        void save(seen);
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          onClose();
        }
      }}
    >
      <h1 class="visually-hidden" tabIndex={-1}>
        {agent.name}
      </h1>
      <TextField label="Name" value={typed} onInput={setTyped} wrong={wrong} maxLength={120} required />
      <div class="row">
        <Button kind="primary" type="submit" busy={busy}>
          {conflict === undefined ? "Save" : "Replace it"}
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
      {conflict === undefined ? null : (
        <Notice tone="warn" live title="The name was changed while you typed">
          It is “{conflict.name}” now. Replace it with yours, or cancel to leave it.
        </Notice>
      )}
      {error === undefined || wrong.length > 0 ? null : (
        <Failure
          error={error}
          title={error.status === 0 ? unknown : "The agent was not renamed"}
          busy={busy}
          retry={() => void save(seen)}
        />
      )}
    </form>
  );
}

const unknown = "It is not known whether the agent was renamed. Trying again is safe.";
const maxTries = 5;

/**
 * Changes the name only if it still is what the person saw. The version of an agent also changes while it is being
 * provisioned; such a change is no reason to refuse, so the call is repeated with the next version. If the answer to an
 * earlier call was lost, the agent may have the name already.
 */
async function rename(id: string, seen: string, name: string): Promise<{ agent: Agent } | { conflict: string }> {
  for (let tries = 1; ; tries++) {
    const current = await call<Agent>(agentPath(id));
    if (current.data.name === name) {
      return { agent: current.data };
    }
    if (current.data.name !== seen) {
      return { conflict: current.data.name };
    }
    try {
      const headers = current.etag === null ? {} : { "If-Match": current.etag };
      const answer = await call<Agent>(agentPath(id), { method: "PATCH", body: { name }, headers });
      return { agent: answer.data };
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 412 || tries >= maxTries) {
        throw error;
      }
    }
  }
}
