import type { Agent, Credentials } from "@agents.example/client/schema";
import { Fragment } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/client";
import { announce } from "../ui/announce";
import { Button } from "../ui/button";
import { CopyButton } from "../ui/copy";
import { Notice } from "../ui/feedback";
import { useLocalNow } from "../ui/time";
import { agentPath } from "./paths";
import { useSubmit } from "../api/submit";
import { SubmitFailure } from "../ui/submit-failure";

/** How long revealed credentials stay on the screen. */
const shownTime = 60_000;

interface Revealed {
  credentials: Credentials;
  until: number;
}

/** Shows the credentials for a minute. They are only in the memory of this component, and gone when it closes. */
export function Reveal({ agent }: { agent: Agent }) {
  const [shown, setShown] = useState<Revealed>();
  const submit = useSubmit(async () => {
    const answer = await call<Credentials>(`${agentPath(agent.id)}/credentials/reveal`, { method: "POST" });
    setShown({ credentials: answer.data, until: Date.now() + shownTime });
    announce("The credentials are shown for 60 seconds.");
  });
  const hide = () => {
    setShown(undefined);
    announce("The credentials are hidden.");
  };
  useEffect(() => setShown(undefined), [agent.credential_rotation_pending]); // they are about to be others
  return (
    <section class="card" aria-label="Credentials">
      <div class="head">
        <h2>Credentials</h2>
        <span class="actions">
          {shown === undefined ? (
            <Button icon="eye" busy={submit.busy} onClick={() => void submit.send()}>
              Reveal the credentials
            </Button>
          ) : (
            <Button icon="hide" onClick={hide}>
              Hide now
            </Button>
          )}
        </span>
      </div>
      <div class="body stack">
        <p class="quiet">
          They open this agent’s dashboard and API, and nothing else. Each reveal is written to the audit log with your
          name, and they are hidden again after 60 seconds.
        </p>
        <SubmitFailure submit={submit} title="The credentials were not revealed" />
        {shown === undefined ? <Hidden agent={agent} /> : <Values shown={shown} onEnd={hide} />}
      </div>
    </section>
  );
}

function Hidden({ agent }: { agent: Agent }) {
  return (
    <dl class="credentials">
      <dt>User name</dt>
      <dd>
        <code>{agent.dashboard_username}</code>
      </dd>
      <dt>Password</dt>
      <dd>
        <Dots what="password" />
      </dd>
      <dt>API key</dt>
      <dd>
        <Dots what="API key" />
      </dd>
    </dl>
  );
}

function Dots({ what }: { what: string }) {
  return (
    <code>
      <span aria-hidden="true">{"•".repeat(24)}</span>
      <span class="visually-hidden">The {what} is hidden.</span>
    </code>
  );
}

function Values({ shown, onEnd }: { shown: Revealed; onEnd: () => void }) {
  const { credentials, until } = shown;
  const left = Math.max(0, Math.ceil((until - useLocalNow()) / 1_000));
  useEffect(() => {
    const timer = setTimeout(onEnd, until - Date.now());
    return () => clearTimeout(timer);
  }, [until]);
  const rows = [
    { name: "User name", value: credentials.dashboard_username, what: "user name" },
    { name: "Password", value: credentials.dashboard_password, what: "password" },
    { name: "API key", value: credentials.tenant_api_key, what: "API key" },
  ];
  return (
    <>
      {credentials.rotation_pending ? (
        <Notice tone="busy">The agent does not accept these yet. The rotation below shows when it does.</Notice>
      ) : null}
      <dl class="credentials">
        {rows.map(({ name, value, what }) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>
              <code>{value}</code>
              <CopyButton text={value} what={what} />
            </dd>
          </Fragment>
        ))}
      </dl>
      <p class="small quiet number">
        Version {credentials.credential_version}. Hidden again in {left} s.
      </p>
    </>
  );
}
