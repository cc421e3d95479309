import type { Agent, SecretInject } from "@agents.example/client/schema";
import { useId } from "preact/hooks";
import { TextField } from "../ui/field";
import { hostsOf } from "./egress-fields";
import type { Row } from "./variable-draft";

/** The requests to which the value of a secret is added, as a person types them. */
export interface InjectDraft {
  hosts: string;
  header: string;
  format: string;
}

/** What the service takes for an empty field. */
const usual = { header: "Authorization", format: "Bearer {value}" };

export const injectDraft = ({ hosts, header, format }: SecretInject): InjectDraft => ({
  hosts: hosts.join(", "),
  header: header ?? usual.header,
  format: format ?? usual.format,
});

export const injectOf = ({ hosts, header, format }: InjectDraft): SecretInject => ({
  hosts: hostsOf(hosts),
  header: header.trim() || usual.header,
  format: format || usual.format,
});

/** Where a value is added, in a line. */
export const injectText = ({ hosts, header }: SecretInject): string =>
  `Added to requests to ${hosts.join(", ")}${header === undefined || header === usual.header ? "" : ` (${header})`}`;

/** Whether the agent gets the value, or its requests to some hosts do. Only agents with allowed hosts can choose. */
export function InjectChoice(props: {
  agent: Agent;
  row: Row;
  /** Whether the secret is injected already, which cannot be changed for a secret that exists. */
  fixed: boolean;
  onChange: (change: Partial<Row>) => void;
}) {
  const { agent, row, fixed, onChange } = props;
  const id = useId();
  const { inject } = row;
  if (agent.egress.mode === "open") {
    return null;
  }
  const change = (part: Partial<InjectDraft>) => inject && onChange({ inject: { ...inject, ...part } });
  const toggle = (on: boolean) => onChange({ inject: on ? { hosts: "", ...usual } : undefined });
  return (
    <>
      <span class="keep small quiet">
        <input
          id={id}
          type="checkbox"
          checked={inject !== undefined}
          disabled={fixed}
          onChange={(event) => toggle(event.currentTarget.checked)}
        />
        <label for={id}>Keep it outside the agent: it is added to the agent’s requests</label>
      </span>
      {inject === undefined ? null : (
        <div class="inject" role="group" aria-label="Requests that get the value">
          <TextField
            label="Hosts"
            mono
            value={inject.hosts}
            onInput={(hosts) => change({ hosts })}
            placeholder="api.example.com"
            hint="Names in full, with commas. The agent must be allowed to reach them."
          />
          <TextField label="Header" mono value={inject.header} onInput={(header) => change({ header })} />
          <TextField
            label="Format"
            mono
            value={inject.format}
            onInput={(format) => change({ format })}
            hint="{value} stands for the secret. The agent’s variable has the text “injected”."
          />
        </div>
      )}
    </>
  );
}
