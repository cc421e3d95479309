import type { Agent, SecretOperation } from "@agents.example/client/schema";
import type { Live } from "../api/live";
import { Following } from "../ui/feedback";
import { OpenOperation, OperationHead } from "./open-operation";
import { isOpen } from "./operation-text";
import { tabHref } from "./paths";

/** How many changes that have ended are shown. */
const ended = 5;

/** What happens to the secrets: each change with its stage, and why it does not go on. */
export function Operations(props: { agent: Agent; live: Live<SecretOperation[]>; onSetAgain: (key: string) => void }) {
  const { agent, live, onSetAgain } = props;
  return (
    <section class="card" aria-labelledby="operations-heading">
      <div class="head">
        <h2 id="operations-heading">Changes of secrets</h2>
        <span class="actions">
          <a class="small" href={tabHref(agent.id, "history")}>
            All changes
          </a>
        </span>
      </div>
      <Following live={live} what="the changes">
        {(operations) => {
          const open = operations.filter(isOpen);
          const last = operations.filter((operation) => !isOpen(operation)).slice(0, ended);
          if (operations.length === 0) {
            return <p class="body quiet">No secret was set, deleted or rotated yet.</p>;
          }
          return (
            <ul class="operations">
              {open.map((operation) => (
                <OpenOperation key={operation.id} agent={agent} operation={operation} onSetAgain={onSetAgain} />
              ))}
              {last.map((operation) => (
                <li key={operation.id}>
                  <OperationHead operation={operation} />
                </li>
              ))}
            </ul>
          );
        }}
      </Following>
    </section>
  );
}
