import type { Agent, SecretOperation, Secret } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { useLive } from "../api/live";
import { Button } from "../ui/button";
import { Notice } from "../ui/feedback";
import { Files } from "./files";
import { isMoving } from "./operation-text";
import { Operations } from "./operations";
import { agentPath } from "./paths";
import { unchangeable } from "./variable-cost";
import { VariableEditor } from "./variable-editor";
import { LackedList, PlainVariables, SecretList } from "./variable-lists";
import { RemoveVariable } from "./variable-removal";

/** The agent's environment: plain variables, secrets, and the changes that are under way. */
export function VariablesTab({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  if (readOnly !== undefined) {
    return (
      <section class="stack" aria-labelledby="variables-heading">
        <h2 id="variables-heading">Variables and secrets</h2>
        <Notice tone="idle" title="Only admins can see and change variables">
          <p>Members do not even see the names. Ask an admin of the organization for a change.</p>
        </Notice>
      </section>
    );
  }
  return <Environment agent={agent} />;
}

/** Together with the agent, which is followed, too, this stays below the number of reads that the service allows. */
const quick = 1_000;
const every = 10_000;

type Doing = { kind: "set"; name?: string } | { kind: "remove"; name: string };

function Environment({ agent }: { agent: Agent }) {
  const [doing, setDoing] = useState<Doing>();
  const path = agentPath(agent.id);
  const operations = useLive<SecretOperation[]>(`${path}/secret-operations?limit=50`, {
    every,
    quick,
    changing: (list) => list.some(isMoving),
  });
  const moving = operations.data?.some(isMoving) ?? false;
  const secrets = useLive<Secret[]>(`${path}/secrets`, {
    every: moving ? quick : every,
    quick,
    changing: (list) => moving || (agent.status === "running" && list.some((secret) => !secret.in_sync)),
  });
  const close = () => setDoing(undefined);
  const actions = {
    onSet: (name: string) => setDoing({ kind: "set", name }),
    onRemove: (name: string) => setDoing({ kind: "remove", name }),
  };
  const isSecret = (name: string) =>
    agent.env_vars[name] === "gsm" || (secrets.data?.some((secret) => secret.key === name) ?? false);
  return (
    <section class="stack" aria-labelledby="variables-heading">
      <div class="page-head">
        <h2 id="variables-heading">Variables and secrets</h2>
        <span class="actions">
          <Button
            icon="plus"
            unavailable={unchangeable(agent)}
            onClick={() => setDoing({ kind: "set" })}
          >
            Set variables
          </Button>
        </span>
      </div>
      <LackedList agent={agent} onSet={actions.onSet} />
      <SecretList agent={agent} live={secrets} {...actions} />
      <PlainVariables agent={agent} {...actions} />
      <Files agent={agent} />
      <Operations agent={agent} live={operations} onSetAgain={actions.onSet} />
      {doing?.kind === "set" ? (
        <VariableEditor
          agent={agent}
          onClose={close}
          inject={secrets.data?.find(({ key }) => key === doing.name)?.inject ?? undefined}
          {...(doing.name === undefined ? {} : { name: doing.name })}
        />
      ) : null}
      {doing?.kind === "remove" ? (
        <RemoveVariable agent={agent} name={doing.name} secret={isSecret(doing.name)} onClose={close} />
      ) : null}
    </section>
  );
}
