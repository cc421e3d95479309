import type { Agent } from "@agents.example/client/schema";
import { call } from "../api/client";
import { putLive } from "../api/live";
import { announce } from "../ui/announce";
import { agentPath } from "./paths";

/** For how long an agent may take to wake before the page gives up, in milliseconds. */
const patience = 300_000;

/** How long the service may keep one answer open until the agent runs, in seconds. */
const wait = 20;

/** The pause between two looks if the service does not wait, in milliseconds. */
const pause = 1_500;

/** Wakes an agent that sleeps, and returns it when it runs, or when it will not. A person may give up before that. */
export async function wake(id: string, gaveUp: () => boolean): Promise<Agent> {
  announce("The agent wakes. Its dashboard opens when it runs.");
  const until = Date.now() + patience;
  let { data: agent } = await call<Agent>(`${agentPath(id)}/resume`, { method: "POST" });
  while (["pending", "provisioning"].includes(agent.status) && Date.now() < until && !gaveUp()) {
    putLive(agentPath(id), agent);
    const asked = Date.now();
    ({ data: agent } = await call<Agent>(agentPath(id), { query: { wait } }));
    if (Date.now() - asked < pause) {
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  putLive(agentPath(id), agent);
  return agent;
}
