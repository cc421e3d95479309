import type { Agent } from "@agents.example/client/schema";
import { call } from "../api/client";
import { CallError } from "../api/errors";
import { agentPath } from "./paths";

const maxTries = 5;

/**
 * Changes a value of an agent that is replaced as a whole, such as a list, from what it is now: bodyOf returns the body
 * of the change, or undefined if there is nothing to do. The version of an agent also changes while it is being
 * provisioned and when a schedule calls it, so a change that came too late begins again.
 */
export async function changeAgent(id: string, bodyOf: (current: Agent) => object | undefined): Promise<Agent> {
  for (let tries = 1; ; tries++) {
    const current = await call<Agent>(agentPath(id));
    const body = bodyOf(current.data);
    if (body === undefined) {
      return current.data;
    }
    try {
      const headers = current.etag === null ? {} : { "If-Match": current.etag };
      return (await call<Agent>(agentPath(id), { method: "PATCH", body, headers })).data;
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 412 || tries >= maxTries) {
        throw error;
      }
    }
  }
}
