import type { Agent, SecretOperation } from "@agents.example/client/schema";
import { useEffect } from "preact/hooks";
import { type Live, useLive } from "../api/live";
import { credentialsKey, isMoving, isStuck } from "./operation-text";
import { agentPath } from "./paths";

/** Together with the agent, which is followed, too, this stays below the number of reads that the service allows. */
const quick = 1_000;
const everyWhilePending = 5_000;
const every = 30_000;

/** Follows the operations on an agent's secrets for its rotation. Only admins may read them. */
export function useOperations(agent: Agent): Live<SecretOperation[]> {
  const pending = agent.credential_rotation_pending;
  const live = useLive<SecretOperation[]>(`${agentPath(agent.id)}/secret-operations?limit=100`, {
    every: pending ? everyWhilePending : every,
    quick,
    changing: (operations) => operations.some((operation) => operation.key === credentialsKey && isMoving(operation)),
  });
  useEffect(live.refresh, [pending]);
  return live;
}

/** The last rotation of the credentials. */
export const rotationOf = (operations: SecretOperation[] | undefined): SecretOperation | undefined =>
  operations?.find(({ key }) => key === credentialsKey);

/** Whether new credentials are on their way to the agent. A rotation that failed or waits stays pending. */
export const rotationMoves = (agent: Agent, last: SecretOperation | undefined): boolean =>
  agent.credential_rotation_pending && !(last !== undefined && isStuck(last));
