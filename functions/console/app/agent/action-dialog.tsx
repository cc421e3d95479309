import type { Agent, AgentAction } from "@agents.example/client/schema";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { statusOf, statusText } from "../ui/status";
import { actionText, allows } from "./action-text";
import { agentPath } from "./paths";
import { Forecast } from "./rehearsal";
import { SubmitFailure } from "../ui/submit-failure";
import { useAgentChange } from "./use-change";

/** Asks before an action, and says what it does and costs. */
export function ActionDialog(props: { agent: Agent; action: AgentAction; onClose: () => void }) {
  const { agent, action, onClose } = props;
  const { label, icon, does, downtime, keeps, accepted } = actionText(action, agent);
  const allowed = allows(agent, action);
  const change = { path: `${agentPath(agent.id)}/${action}`, method: "POST" } as const;
  const submit = useAgentChange(change, () => accepted, onClose);
  const rehearsed = allowed && !submit.busy;
  return (
    <Dialog
      title={`${label} “${agent.name}”?`}
      onClose={onClose}
      onSubmit={() => {
        if (allowed) {
          submit.send();
        }
      }}
      action={
        <Button
          kind="primary"
          type="submit"
          icon={icon}
          busy={submit.busy}
          unavailable={allowed ? undefined : "The agent’s status does not allow this any more."}
          autofocus
        >
          {label} the agent
        </Button>
      }
    >
      <dl class="costs">
        <dt>What happens</dt>
        <dd>{does(agent)}</dd>
        {rehearsed ? null : (
          <>
            <dt>Downtime</dt>
            <dd>{downtime(agent)}</dd>
          </>
        )}
        <dt>What stays, and what counts</dt>
        <dd>{keeps}</dd>
      </dl>
      {rehearsed ? (
        <Forecast change={change} asOf={agent.status} downtime={downtime(agent)} />
      ) : null}
      {allowed || submit.busy ? null : (
        <Notice tone="warn" live>
          The agent is “{statusText(statusOf(agent)).toLowerCase()}” now, and its status does not allow this any more.
        </Notice>
      )}
      <SubmitFailure submit={submit} title="The agent was not changed" />
    </Dialog>
  );
}
