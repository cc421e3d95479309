import { isNotFound, retryAfter } from "./error.js";
import { longestRetryAfter, outagePatience } from "./retry.js";
import type { Agent, AgentStatus, SecretOperation } from "./schema.js";
import type { AnyInit, Transport } from "./transport.js";
import type { Call } from "./types.js";

/** Options of a wait. */
export interface WaitOptions<T> {
  /** Ends the wait, which then throws the signal's reason. `AbortSignal.timeout(ms)` limits it. */
  signal?: AbortSignal | undefined;
  /** Receives the object when the wait begins and whenever it has changed. */
  onChange?: ((value: T) => void) | undefined;
}

/** Waits for the work that a call began. Once the API has shown it, a wait bears that the API is away for 2 minutes. */
export interface Waiting {
  /**
   * Waits until an agent is running, paused, stopped or in error, and returns it. The API holds each request until
   * then, so a wait costs about one request a minute; with `onChange`, which reports the stages, one in two seconds.
   * A running agent stays running while its pod is replaced: after a restart, or a change of variables, secrets or
   * credentials, use waitUntilReady instead.
   */
  waitUntilSettled(agentId: string, options?: WaitOptions<Agent>): Promise<Agent>;
  /**
   * Waits until an agent is paused, stopped, in error, or running with its newest pod, and returns it. It covers every
   * change of an agent, also a restart. While a pod is replaced, it sends about one request a second.
   */
  waitUntilReady(agentId: string, options?: WaitOptions<Agent>): Promise<Agent>;
  /** Waits until an agent that is being deleted is gone. It throws if the agent is not being deleted. */
  waitUntilDeleted(agentId: string, options?: WaitOptions<Agent>): Promise<void>;
  /**
   * Waits until operations have ended, and returns them in the same order. An operation has ended if it succeeded, was
   * superseded or canceled, or waits for the start of its agent (`error_code` is `agent_not_running`). A failed
   * operation throws an OperationError. So does one at the stage `store` for more than 30 seconds: its value must be
   * sent again.
   */
  waitForSecretOperations(
    operations: readonly SecretOperation[],
    options?: WaitOptions<SecretOperation>,
  ): Promise<SecretOperation[]>;
}

/** An operation failed. Call its `reconcile` to retry its stage. */
export class OperationError extends Error {
  override readonly name = "OperationError";

  constructor(readonly operation: SecretOperation) {
    super(
      isStoring(operation)
        ? `The operation ${operation.id} did not store the value of ${operation.key} in time. Set it again.`
        : `The operation ${operation.id} on ${operation.key} failed at the stage ${operation.stage}: ` +
            `${operation.error_code ?? "internal_error"}. Reconcile it to retry the stage.`,
    );
  }
}

/** Reports whether an agent's status does not change by itself, unlike pending, provisioning and deleting. */
export function isSettled(status: AgentStatus): boolean {
  return status === "running" || status === "paused" || status === "stopped" || status === "error";
}

// How many seconds one request waits for an agent, without and with reports. The API allows 55.
const longWait = 50;
const shortWait = 2;

// The pauses between reads of an operation, in milliseconds.
const firstPause = 500;
const maxPause = 4000;

// How long the API may take to know whether a value was stored, in milliseconds. After that, an operation leaves the
// stage only with another request.
const longestStoring = 30_000;

const agentPath = "/api/v1/agents/{agent_id}";
const operationPath = "/api/v1/agents/{agent_id}/secret-operations/{operation_id}";

export function waitsOf({ call, sleep }: Transport, GET: Call<"get">): Waiting {
  // patientGET is for an object that the API has shown: it bears an outage of the API.
  const patientGET = ((path: string, init?: AnyInit) =>
    call("get", path, { ...init, outage: outagePatience })) as unknown as Call<"get">;

  // watch reads an agent until done is true for it. The API holds a request while the status is not settled.
  async function watch(id: string, { signal, onChange }: WaitOptions<Agent>, done: (agent: Agent) => boolean) {
    const params = { path: { agent_id: id }, query: { wait: onChange ? shortWait : longWait } };
    let version: string | null | undefined;
    for (;;) {
      const began = Date.now();
      let headers = new Headers();
      const read = version === undefined ? GET : patientGET;
      const agent = await read(agentPath, { params, signal, onResponse: (response) => (headers = response.headers) });
      if (version == null || version !== headers.get("ETag")) {
        onChange?.(agent);
      }
      version = headers.get("ETag");
      if (done(agent)) {
        return agent;
      }
      // The API answers immediately if too many requests wait already.
      const pause = retryAfter(headers) || (Date.now() - began < 1000 ? 1 : 0);
      if (pause > 0) {
        await sleep(Math.min(pause, longestRetryAfter) * 1000, signal);
      }
    }
  }

  async function waitForOperation(begun: SecretOperation, options: WaitOptions<SecretOperation>) {
    const path = { agent_id: begun.agent_id, operation_id: begun.id };
    let operation = begun;
    options.onChange?.(operation);
    let unchanged = 0;
    for (let pause = firstPause; !hasEnded(operation); pause = Math.min(pause * 1.5, maxPause)) {
      await sleep(pause, options.signal);
      unchanged += pause;
      const { updated_at: before } = operation;
      operation = await patientGET(operationPath, { params: { path }, signal: options.signal });
      if (operation.updated_at !== before) {
        unchanged = 0;
        options.onChange?.(operation);
      }
      if (isStoring(operation) && unchanged > longestStoring) {
        throw new OperationError(operation);
      }
    }
    if (operation.status === "failed") {
      throw new OperationError(operation);
    }
    return operation;
  }

  return {
    waitUntilSettled: (id, options = {}) => watch(id, options, (agent) => isSettled(agent.status)),
    waitUntilReady: (id, options = {}) => watch(id, options, isReady),
    waitUntilDeleted: async (id, options = {}) => {
      try {
        const { status } = await watch(id, options, (agent) => isSettled(agent.status));
        throw new Error(`The agent ${id} is ${status}, not being deleted. Delete it before you wait.`);
      } catch (error) {
        if (!isNotFound(error)) {
          throw error;
        }
      }
    },
    waitForSecretOperations: async (operations, options = {}) => {
      const ended: SecretOperation[] = [];
      for (const operation of operations) {
        ended.push(await waitForOperation(operation, options)); // one rollout serves all, so the others are done, too
      }
      return ended;
    },
  };
}

function isReady({ status, dashboard_warming: isWarming }: Agent): boolean {
  return isSettled(status) && (status !== "running" || !isWarming);
}

function isStoring({ status, stage }: SecretOperation): boolean {
  return status === "pending" && stage === "store";
}

function hasEnded({ status, error_code: code }: SecretOperation): boolean {
  if (status === "pending") {
    return code === "agent_not_running";
  }
  // A later release may have other statuses.
  return status === "succeeded" || status === "failed" || status === "superseded" || status === "canceled";
}
