import type { Agent, SecretInject } from "@agents.example/client/schema";
import { useRef, useState } from "preact/hooks";
import { refreshLive } from "../api/live";
import { EnvPaste } from "../agents/env-paste";
import { isPasted, keepRest, nothingPasted, refusePasted } from "../agents/pasted";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { plural } from "../ui/format";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { useSubmit } from "../api/submit";
import { SubmitFailure } from "../ui/submit-failure";
import { acceptedText, costOf } from "./variable-cost";
import { check, filled, isSecretRow, refused, rehearsed, type Row, save, withoutShown } from "./variable-draft";
import { injectDraft } from "./variable-inject";
import { VariableRow } from "./variable-row";

/** The row that is there from the start. */
const first = 1;

/** Whether the agent has a name as that of a secret, or had it in the agent that it is a copy of. */
const isKept = (agent: Agent, name: string): boolean =>
  agent.env_vars[name] === "gsm" || agent.unset_secrets.includes(name);

/** Sets variables and secrets, several with one change of the pod. A known name gets a new value. */
export function VariableEditor(props: {
  agent: Agent;
  name?: string;
  /** The requests to which the present value of the name is added. */
  inject?: SecretInject | undefined;
  onClose: () => void;
}) {
  const { agent, name, inject, onClose } = props;
  const lastID = useRef(first);
  const [rows, setRows] = useState<Row[]>([
    {
      id: first,
      key: name ?? "",
      value: "",
      secret: name !== undefined && isKept(agent, name),
      inject: inject && injectDraft(inject),
    },
  ]);
  const [checked, setChecked] = useState(false);
  const [pasted, setPasted] = useState(nothingPasted);
  const [focused, setFocused] = useState(first);
  const [saved, setSaved] = useState(0);
  const submit = useSubmit(async (intent) => {
    await save(agent, rows, intent, (done) => {
      setSaved((count) => count + done.length);
      setRows((kept) => kept.filter((row) => !done.includes(row)));
    });
    refreshLive(`${agentPath(agent.id)}/secret`);
    toast(acceptedText(agent));
    onClose();
  });
  const edit = (change: (rows: Row[]) => Row[]) => {
    submit.forget();
    setRows(change);
  };
  const add = (added: { key: string; value: string }[]) =>
    edit((known) => {
      const kept = filled(known).filter((row) => !added.some(({ key }) => key !== "" && key === row.key));
      return [...kept, ...added.map(({ key, value }) => ({ id: ++lastID.current, key, value, secret: false }))];
    });
  const typed = filled(rows);
  const secrets = typed.filter((row) => isSecretRow(agent, row)).length;
  const wrong = checked ? check(agent, rows) : new Map<number, string[]>();
  const refusals = refused(submit.error, rows);
  const send = async () => {
    setChecked(true);
    if (isPasted(pasted)) {
      setPasted(refusePasted(pasted));
    } else if (typed.length > 0 && check(agent, rows).size === 0) {
      await submit.send();
    }
  };
  return (
    <Dialog
      title={name === undefined ? "Set variables" : `Set ${name}`}
      wide
      typed={typed.some((row) => row.value !== "") || isPasted(pasted)}
      onClose={onClose}
      onSubmit={send}
      action={
        <Button
          kind="primary"
          type="submit"
          busy={submit.busy}
          unavailable={typed.length === 0 && !isPasted(pasted) ? "Enter a name and a value first." : undefined}
        >
          {typed.length < 2 ? "Save" : `Save ${plural(typed.length, "variable")}`}
        </Button>
      }
    >
      <div class="field variable-rows">
        {rows.map((row, i) => (
          <VariableRow
            key={row.id}
            agent={agent}
            row={row}
            place={i + 1}
            fixed={row.id === first && name !== undefined}
            injected={row.id === first && inject !== undefined}
            wrong={wrong.get(row.id) ?? refusals.get(row.id) ?? []}
            autofocus={row.id === focused}
            onChange={(change) => edit((all) => all.map((one) => (one.id === row.id ? { ...one, ...change } : one)))}
            onRemove={() => edit((all) => all.filter((one) => one.id !== row.id))}
            onPaste={(entries, rest) => {
              add(entries);
              setPasted(keepRest(pasted, rest));
            }}
          />
        ))}
      </div>
      <div class="row">
        <Button
          icon="plus"
          onClick={() => {
            edit((all) => [...all, { id: ++lastID.current, key: "", value: "", secret: false }]);
            setFocused(lastID.current);
          }}
        >
          Another one
        </Button>
        <Button icon="copy" expanded={pasted.shown} onClick={() => setPasted({ ...pasted, shown: !pasted.shown })}>
          Paste a .env file
        </Button>
        {secrets === 0 ? null : <span class="small quiet">{plural(secrets, "secret")} among them</span>}
      </div>
      {pasted.shown ? <EnvPaste pasted={pasted} onChange={setPasted} onAdd={add} /> : null}
      <dl class="costs">
        <dt>What happens</dt>
        <dd>Plain variables are saved with the agent, and secrets in the secret store. No value is shown again.</dd>
        <dt>Downtime</dt>
        <dd>{costOf(agent)}</dd>
      </dl>
      {submit.busy || check(agent, rows).size > 0 ? null : (
        <Forecast change={rehearsed(agent, rows)} asOf={agent.status} />
      )}
      <SubmitFailure
        submit={{ ...submit, error: submit.error && withoutShown(submit.error, rows) }}
        title="Not everything was saved"
      />
      {saved === 0 ? null : (
        <p role="status">
          {plural(saved, "variable")} {saved === 1 ? "is" : "are"} saved already, and the ones above are not.
        </p>
      )}
    </Dialog>
  );
}
