import type { Agent } from "@agents.example/client/schema";
import { useEffect, useRef } from "preact/hooks";
import { announce } from "../ui/announce";
import { type Appearance, Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Failure, Notice } from "../ui/feedback";
import { formatNumber, plural } from "../ui/format";
import { isAsleep, statusOf, statusText } from "../ui/status";
import { useLocalNow } from "../ui/time";
import { type LogState, notRestarted } from "./log-reader";
import { wakersText } from "./sleep-text";

const appearances: Record<LogState["kind"], Appearance> = {
  connecting: { tone: "busy", icon: "busy", text: "Connecting" },
  live: { tone: "good", icon: "running", text: "Live" },
  waiting: { tone: "warn", icon: "waiting", text: "Reconnecting" },
  no_container: { tone: "idle", icon: "stopped", text: "Nothing to read" },
  complete: { tone: "idle", icon: "check", text: "Complete" },
  failed: { tone: "bad", icon: "error", text: "Failed" },
};

/** Whether the log goes on, as a word with an icon. Changes are announced; lines are not. */
export function LogStatus({ state, paused }: { state: LogState; paused: boolean }) {
  const shown: Appearance = paused ? { tone: "idle", icon: "paused", text: "Paused" } : appearances[state.kind];
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) {
      announce(`Log: ${shown.text}.`);
    }
    first.current = false;
  }, [shown.text]);
  return <Badge {...shown} />;
}

/** Why the log does not go on, and what a person can do. */
export function LogRemark(props: {
  agent: Agent;
  state: LogState;
  empty: boolean;
  retry: () => void;
  /** Reads the log without following it. */
  readOnce: () => void;
  readLive: () => void;
}) {
  const { agent, state, retry } = props;
  switch (state.kind) {
    case "failed":
      return <Failure error={state.error} retry={retry} />;
    case "waiting":
      return <Waits {...props} until={state.until} message={state.error.message} code={state.error.code} />;
    case "no_container":
      return state.code === notRestarted ? (
        <NotRestarted readLive={props.readLive} />
      ) : (
        <NoContainer agent={agent} empty={props.empty} retry={retry} />
      );
    case "complete":
      return state.truncated ? (
        <Notice tone="warn" title="The log is longer than what could be read">
          <p>Choose fewer lines or a later start to see the newest lines.</p>
        </Notice>
      ) : null;
    default:
      return null;
  }
}

function Waits(props: {
  until: number;
  message: string;
  code: string;
  retry: () => void;
  readOnce: () => void;
}) {
  const { until, message, code, retry, readOnce } = props;
  const many = code === "too_many_followers";
  const seconds = Math.max(0, Math.ceil((until - useLocalNow()) / 1_000));
  const actions = (
    <>
      <Button icon="refresh" onClick={retry}>
        Try now
      </Button>
      {many ? <Button onClick={readOnce}>Read once, without following</Button> : null}
    </>
  );
  return (
    <Notice tone="warn" actions={actions}>
      <p>
        {many
          ? "You follow too many logs at the same time, for example in other tabs. Close one of them."
          : message}{" "}
        The console tries again {seconds === 0 ? "now" : `in ${plural(seconds, "second")}`}, and goes on after the last
        line that it has.
      </p>
    </Notice>
  );
}

function NotRestarted({ readLive }: { readLive: () => void }) {
  return (
    <Notice
      tone="idle"
      title="The container has not restarted"
      actions={<Button onClick={readLive}>Show the live log</Button>}
    >
      <p>There is no log from before. The live log has every line that the cluster still keeps.</p>
    </Notice>
  );
}

function NoContainer({ agent, empty, retry }: { agent: Agent; empty: boolean; retry: () => void }) {
  const starting = agent.status === "provisioning" || agent.status === "pending" || agent.dashboard_warming;
  const what = starting
    ? "Its container has not started yet. The log begins as soon as it does."
    : isAsleep(agent)
      ? `A log begins when the agent wakes, and goes on here by itself. ${wakersText(agent.sleep)}`
      : "A log begins when the agent starts, and goes on here by itself.";
  return (
    <Notice
      tone="idle"
      title={`No container runs (${statusText(statusOf(agent)).toLowerCase()})`}
      actions={
        <Button icon="refresh" onClick={retry}>
          Look now
        </Button>
      }
    >
      <p>
        {empty ? "" : "The lines below are from before. "}
        {what}
      </p>
    </Notice>
  );
}

/** How much is shown of what the console has. */
export function LogCount(props: { shown: number; all: number; dropped: number; newer: number }) {
  const { shown, all, dropped, newer } = props;
  return (
    <span class="small quiet number">
      {shown === all ? plural(all, "line") : `${formatNumber(shown)} of ${plural(all, "line")}`}
      {dropped === 0 ? "" : `, ${formatNumber(dropped)} older left out`}
      {newer === 0 ? "" : `, ${formatNumber(newer)} new since the pause`}
    </span>
  );
}
