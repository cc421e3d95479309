import type { Agent } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useMe, useReadOnly } from "../account";
import { call } from "../api/client";
import { type CallError, asError } from "../api/errors";
import { navigate } from "../router";
import { announce } from "../ui/announce";
import { Button, LinkButton } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/feedback";
import { isAsleep, statusText } from "../ui/status";
import { agentPath, tabHref } from "./paths";
import { wake } from "./wake";

type Outcome =
  | { kind: "failed"; error: CallError }
  | { kind: "blocked"; url: string }
  /** The caller gets no link that signs in, so the dashboard asks for the user name and password. */
  | { kind: "password"; url: string }
  /** The agent was woken, and does not run. */
  | { kind: "not_awake"; status: string };

/** Opens the agent's dashboard, signed in where the service allows it. A short button is for rows of a table. */
export function OpenDashboard({ agent, short = false }: { agent: Agent; short?: boolean }) {
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome>();
  const me = useMe();
  const readOnly = useReadOnly();
  const getsLink = me.role === "admin" && me.auth_type === "session";
  if (agent.dashboard_url === null || agent.status === "deleting") {
    return null;
  }
  const url = agent.dashboard_url;
  const asleep = isAsleep(agent);
  const open = async () => {
    if (!getsLink && (!asleep || readOnly !== undefined)) {
      setOutcome({ kind: "password", url }); // without a tab that opens and closes again
      return;
    }
    setBusy(true);
    setOutcome(await openDashboard(agent.id, asleep));
    setBusy(false);
  };
  return (
    <>
      <Button
        kind={short ? "plain" : "primary"}
        icon="external"
        busy={busy}
        unavailable={
          busy || agent.status === "running"
            ? undefined
            : asleep
              ? agent.sleep.wake_on.includes("request")
                ? undefined // a visit wakes it
                : readOnly
              : "The dashboard answers only while the agent is running."
        }
        onClick={() => void open()}
      >
        {short ? "Open" : "Open dashboard"}
        {short ? <span class="visually-hidden"> the dashboard of {agent.name}</span> : null}
      </Button>
      {outcome === undefined ? null : (
        <OutcomeDialog agent={agent} outcome={outcome} retry={open} onClose={() => setOutcome(undefined)} />
      )}
    </>
  );
}

/**
 * Asks for a link at the click, because it works once and for 60 seconds. The tab is opened before the answer is there:
 * a browser blocks tabs that are not the immediate result of a click. An agent that sleeps is woken first.
 */
async function openDashboard(id: string, asleep: boolean): Promise<Outcome | undefined> {
  const tab = window.open("about:blank", "_blank");
  if (tab !== null) {
    tab.opener = null;
    tab.document.title = "Opening the dashboard …";
  }
  try {
    if (asleep) {
      if (tab !== null) {
        tab.document.body.textContent = "The agent was asleep and wakes now. Its dashboard opens here in some seconds.";
      }
      const { status } = await wake(id, () => tab?.closed ?? false);
      if (status !== "running") {
        tab?.close();
        return { kind: "not_awake", status };
      }
    }
    const { data } = await call<Agent>(agentPath(id));
    const url = data.dashboard_handoff_url;
    if (url === null) {
      tab?.close();
      return { kind: "password", url: data.dashboard_url ?? "" };
    }
    if (tab === null || tab.closed) {
      return { kind: "blocked", url };
    }
    tab.location.replace(url);
    announce("The dashboard opens in another tab.");
    return undefined;
  } catch (cause) {
    tab?.close();
    return { kind: "failed", error: asError(cause) };
  }
}

function OutcomeDialog(props: { agent: Agent; outcome: Outcome; retry: () => void; onClose: () => void }) {
  const { agent, outcome, retry, onClose } = props;
  const readOnly = useReadOnly();
  switch (outcome.kind) {
    case "failed":
      return (
        <Dialog title="The dashboard was not opened" onClose={onClose}>
          <Failure error={outcome.error} retry={retry} />
        </Dialog>
      );
    case "blocked":
      return (
        <Dialog title="The browser blocked the new tab" onClose={onClose}>
          <p>Open the dashboard with this link. It works once, and for 60 seconds.</p>
          <div class="row">
            <LinkButton href={outcome.url} kind="primary" icon="external" external>
              Open the dashboard
            </LinkButton>
          </div>
        </Dialog>
      );
    case "not_awake":
      return (
        <Dialog title="The agent does not run yet" onClose={onClose}>
          <p>It was woken, and is “{statusText(outcome.status).toLowerCase()}” now. Its page says more.</p>
        </Dialog>
      );
    case "password":
      return (
        <Dialog
          title="The dashboard asks for a password"
          onClose={onClose}
          foot={
            <>
              {readOnly === undefined ? (
                <Button
                  icon="key"
                  onClick={() => {
                    onClose();
                    navigate(tabHref(agent.id, "credentials"));
                  }}
                >
                  Show the credentials
                </Button>
              ) : null}
              <LinkButton href={outcome.url} kind="primary" icon="external" external>
                Open the dashboard
              </LinkButton>
            </>
          }
        >
          {isAsleep(agent) && readOnly !== undefined ? (
            <p>The agent is asleep. It wakes when you sign in, which takes some seconds.</p>
          ) : null}
          <p>
            {readOnly === undefined
              ? "Links that sign in by themselves are only for people who signed in at the identity provider, " +
                "not for " +
                "API keys. The dashboard asks for its user name and password, which the tab “Credentials” reveals."
              : "Only admins get a link that signs in by itself. The dashboard asks for its user name and password: " +
                "ask an admin of the organization for them."}
          </p>
        </Dialog>
      );
  }
}
