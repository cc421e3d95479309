import type { Agent, SecretOperation } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { asError } from "../api/errors";
import { refreshLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Notice } from "../ui/feedback";
import { SubmitFailure } from "../ui/submit-failure";
import { Time, useNow } from "../ui/time";
import { isParked, operationAppearance, operationProblem, operationTitle, retryOf, retryText } from "./operation-text";
import { agentPath } from "./paths";
import { Steps } from "./steps";

/** What a change does, and how it is. */
export function OperationHead({ operation }: { operation: SecretOperation }) {
  return (
    <div class="row">
      <span class="title mono">{operationTitle(operation)}</span>
      <Badge {...operationAppearance(operation)} />
      <span class="small quiet since">
        <Time value={operation.updated_at} />
      </span>
    </div>
  );
}

/** A change that has not ended: how far it is, why it does not go on, and a retry. */
export function OpenOperation(props: {
  agent: Agent;
  operation: SecretOperation;
  /** Asks for the value again. */
  onSetAgain?: (key: string) => void;
}) {
  const { agent, operation, onSetAgain } = props;
  const now = useNow();
  const [lost, setLost] = useState(false);
  const submit = useSubmit(async (intent) => {
    const path = `${agentPath(agent.id)}/secret-operations/${operation.id}/reconcile`;
    try {
      await call<SecretOperation>(path, { method: "POST", intent });
    } catch (cause) {
      setLost(asError(cause).code === "secret_value_unavailable");
      throw cause;
    } finally {
      refreshLive(`${agentPath(agent.id)}/secret-operations`);
    }
  });
  const problem = operationProblem(operation);
  const retry = retryOf(agent, operation, now);
  const setAgain = operation.action === "set" && onSetAgain !== undefined ? (
    <Button icon="pencil" onClick={() => onSetAgain(operation.key)}>
      Set {operation.key} again
    </Button>
  ) : null;
  return (
    <li class="open stack-tight">
      <OperationHead operation={operation} />
      <Steps operation={operation} />
      {problem === undefined ? null : (
        <Notice
          tone={operation.status === "failed" ? "bad" : isParked(operation) ? "idle" : "warn"}
          title={problem.title}
        >
          <p>
            {problem.youCan} <span class="quiet small">Code {operation.error_code}</span>
          </p>
        </Notice>
      )}
      {retry.offered && !lost ? (
        <div class="row">
          <Button icon="refresh" busy={submit.busy} unavailable={retry.unavailable} onClick={() => void submit.send()}>
            Retry this step
          </Button>
          {operation.stage === "store" ? setAgain : null}
          <span class="small quiet">{retry.unavailable ?? retryText(operation)}</span>
        </div>
      ) : null}
      {lost ? (
        <Notice tone="bad" live title="The value did not reach the secret store" actions={setAgain}>
          <p>
            {operation.action === "rotate" ? "Rotate the credentials again." : "Set it again."} The service does not
            have the value, so no retry can bring it back.
          </p>
        </Notice>
      ) : (
        <SubmitFailure submit={submit} title="The step was not retried" />
      )}
    </li>
  );
}
