import { isNotFound } from "@agents.example/client/error";
import type { Agent } from "@agents.example/client/schema";
import { useEffect, useRef } from "preact/hooks";
import { call } from "../api/client";
import { asError } from "../api/errors";
import { type Live, useLive } from "../api/live";
import { requestedPause } from "../api/pace";
import { announce } from "../ui/announce";
import { isChanging, statusOf, statusText } from "../ui/status";
import { agentPath } from "./paths";

/** The longest wait that the service accepts, in seconds, and the time after which an answer counts as lost. */
const waitSeconds = 55;
const waitTimeout = 70_000;
const pauseAfterWait = 1_000;
const pauseAfterFailure = 5_000;

const isProvisioning = (agent: Agent | undefined): boolean =>
  agent?.status === "provisioning" || agent?.status === "pending";

/** Follows an agent, and announces each change of its status. */
export function useAgent(id: string): Live<Agent> {
  const live = useLive<Agent>(agentPath(id), { changing: isChanging, endsWhenGone: true });
  useWait(agentPath(id), isProvisioning(live.data) && !isGone(live), live.refresh);
  useStatusAnnouncements(live);
  return live;
}

/** Holds a call open that the service answers when provisioning ends, so that the end shows also in a hidden tab. */
function useWait(path: string, waits: boolean, refresh: () => void): void {
  useEffect(() => {
    if (!waits) {
      return;
    }
    const stop = new AbortController();
    void waitAgain(path, refresh, stop.signal);
    return () => stop.abort();
  }, [path, waits, refresh]);
}

async function waitAgain(path: string, refresh: () => void, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    let pause = pauseAfterWait;
    try {
      const query = { wait: waitSeconds };
      const answer = await call<Agent>(path, { query, timeout: waitTimeout, signal: stop });
      pause = requestedPause(answer.retryAfter) || pause;
      if (!isProvisioning(answer.data)) {
        refresh();
      }
    } catch (error) {
      pause = Math.max(pauseAfterFailure, requestedPause(asError(error).retryAfter));
    }
    await sleep(pause, stop);
  }
}

function sleep(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Whether the service says that the agent does not exist, or does not exist any more. */
export const isGone = (live: Live<Agent>): boolean => isNotFound(live.error);

function useStatusAnnouncements(live: Live<Agent>): void {
  const said = useRef<string | undefined>(undefined);
  const { data } = live;
  const now = data === undefined ? undefined : isGone(live) ? "deleted" : summary(data);
  useEffect(() => {
    if (said.current !== undefined && now !== undefined && said.current !== now) {
      announce(`${data?.name ?? "The agent"}: ${now}.`);
    }
    said.current = now ?? said.current;
  }, [now]);
}

const summary = (agent: Agent): string =>
  agent.status === "running" && agent.dashboard_warming
    ? "running, the pod is being replaced"
    : statusText(statusOf(agent)).toLowerCase();
