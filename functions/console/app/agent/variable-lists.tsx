import type { Agent, Secret } from "@agents.example/client/schema";
import type { ComponentChildren } from "preact";
import type { Live } from "../api/live";
import { type Appearance, Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Following } from "../ui/feedback";
import { plural } from "../ui/format";
import { Time } from "../ui/time";
import { unchangeable } from "./variable-cost";
import { injectText } from "./variable-inject";

interface Actions {
  onSet: (name: string) => void;
  onRemove: (name: string) => void;
}

/** The names of the plain variables. */
export function PlainVariables({ agent, onSet, onRemove }: Actions & { agent: Agent }) {
  const names = Object.keys(agent.env_vars).filter((name) => agent.env_vars[name] !== "gsm");
  return (
    <section class="card" aria-labelledby="plain-heading">
      <div class="head">
        <h2 id="plain-heading">Variables</h2>
        <span class="small quiet">
          {names.length === 0 ? "" : `${plural(names.length, "variable")}. `}
          The API never shows values.
        </span>
      </div>
      {names.length === 0 ? (
        <p class="body quiet">The agent has no plain variables.</p>
      ) : (
        <ul class="names">
          {names.sort().map((name) => (
            <Item key={name} agent={agent} name={name} onSet={onSet} onRemove={onRemove} />
          ))}
        </ul>
      )}
    </section>
  );
}

/** The secrets that an agent lacks which is a copy: it has their names, and no values. */
export function LackedList({ agent, onSet }: Pick<Actions, "onSet"> & { agent: Agent }) {
  const unavailable = unchangeable(agent);
  return agent.unset_secrets.length === 0 ? null : (
    <section class="card" aria-labelledby="lacked-heading">
      <div class="head">
        <h2 id="lacked-heading">Secrets that are not set</h2>
        <span class="small quiet">The agent is a copy, and values of secrets are not copied.</span>
      </div>
      <ul class="names">
        {agent.unset_secrets.map((name) => (
          <li key={name}>
            <code class="name">{name}</code>
            <span class="state">
              <Badge tone="warn" icon="error" text="Not set" />
            </span>
            <span class="actions">
              <Button icon="key" unavailable={unavailable} onClick={() => onSet(name)}>
                Set<span class="visually-hidden"> {name}</span>
              </Button>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The secrets, each with the version that the running pod has. */
export function SecretList(props: Actions & { agent: Agent; live: Live<Secret[]> }) {
  const { agent, live, onSet, onRemove } = props;
  return (
    <section class="card" aria-labelledby="secrets-heading">
      <div class="head">
        <h2 id="secrets-heading">Secrets</h2>
        <span class="small quiet">Values go to the secret store, and are never shown.</span>
      </div>
      <Following live={live} what="the secrets">
        {(secrets) =>
          secrets.length === 0 ? (
            <p class="body quiet">The agent has no secrets.</p>
          ) : (
            <ul class="names">
              {secrets.map((secret) => (
                <Item key={secret.key} agent={agent} name={secret.key} onSet={onSet} onRemove={onRemove}>
                  <Version agent={agent} secret={secret} />
                </Item>
              ))}
            </ul>
          )
        }
      </Following>
    </section>
  );
}

function Item(props: Actions & { agent: Agent; name: string; children?: ComponentChildren }) {
  const { agent, name, onSet, onRemove, children } = props;
  const unavailable = unchangeable(agent);
  return (
    <li>
      <code class="name">{name}</code>
      <span class="state">{children}</span>
      <span class="actions">
        <Button kind="plain" icon="pencil" iconOnly unavailable={unavailable} onClick={() => onSet(name)}>
          {`Set ${name} to a new value`}
        </Button>
        <Button kind="plain" icon="trash" iconOnly unavailable={unavailable} onClick={() => onRemove(name)}>
          {`Delete ${name}`}
        </Button>
      </span>
    </li>
  );
}

function Version({ agent, secret }: { agent: Agent; secret: Secret }) {
  const { latest_version: latest, live_version: live } = secret;
  return (
    <>
      <Badge {...versionState(agent, secret)} />
      <span class="small quiet number">
        {latest === null ? "no version stored" : `version ${latest}`}
        {live === null || live === latest ? "" : `, the pod has ${live}`}
        {", "}
        <Time value={secret.updated_at} />
      </span>
      {secret.inject === null ? null : <span class="small quiet">{injectText(secret.inject)}</span>}
    </>
  );
}

function versionState(agent: Agent, { latest_version, live_version, in_sync }: Secret): Appearance {
  switch (true) {
    case in_sync:
      return { tone: "good", icon: "check", text: "In use" };
    case latest_version === null && live_version !== null:
      return { tone: "busy", icon: "busy", text: "Being deleted" };
    case latest_version === null:
      return { tone: "warn", icon: "error", text: "Not stored yet" };
    case agent.status === "stopped" || agent.status === "paused":
      return { tone: "idle", icon: "paused", text: "Used from the next start" };
    default:
      return { tone: "busy", icon: "waiting", text: "Not in the pod yet" };
  }
}
