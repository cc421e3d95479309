import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { violationsAt } from "../api/errors";
import { refreshLive } from "../api/live";
import { useChange } from "../api/submit";
import { sentenceOf } from "../agents/wrong";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Select, TextField } from "../ui/field";
import { SubmitFailure } from "../ui/submit-failure";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { snapshotsPath } from "./use-snapshots";

/** Asks for a snapshot. What it costs the agent is rehearsed. */
export function TakeSnapshot({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const [name, setName] = useState("");
  const [consistency, setConsistency] = useState("");
  const path = snapshotsPath(agent.id);
  const how = consistency === "" ? {} : { consistency };
  const body = name.trim() === "" ? how : { ...how, name: name.trim() };
  const submit = useChange<AgentSnapshot>({ path, method: "POST", body }, () => {
    refreshLive(agentPath(agent.id));
    toast("The snapshot is being taken.");
    onClose();
  });
  const wrong = violationsAt(submit.error, "name").map(sentenceOf);
  return (
    <Dialog
      title="Take a snapshot"
      onClose={onClose}
      onSubmit={submit.send}
      action={
        <Button kind="primary" type="submit" icon="plus" busy={submit.busy}>
          Take the snapshot
        </Button>
      }
    >
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        placeholder="Before the clean-up"
        hint="For people. It may stay empty."
        wrong={wrong}
        maxLength={120}
        autofocus
      />
      <Select
        label="How"
        value={consistency}
        onChange={setConsistency}
        options={[
          { value: "", label: "With files that fit together" },
          { value: "crash", label: "Without stopping, as after a crash" },
        ]}
        hint={
          consistency === ""
            ? "The agent’s program puts its files in order first. Without such a program, it is stopped for a moment."
            : "The agent runs on. A file or a database that it writes at that moment may be half written."
        }
      />
      {submit.busy ? null : (
        <Forecast change={{ path, method: "POST", body: how }} asOf={agent.status + agent.updated_at} />
      )}
      {wrong.length > 0 ? null : <SubmitFailure submit={submit} title="The snapshot was not taken" retry="submit" />}
    </Dialog>
  );
}
