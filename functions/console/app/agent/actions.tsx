import type { Agent, AgentAction } from "@agents.example/client/schema";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { Button } from "../ui/button";
import { Menu } from "../ui/menu";
import { actionText, allowedActions, allows } from "./action-text";
import { ActionDialog } from "./action-dialog";
import { DeleteDialog } from "./delete-dialog";

/** How many actions are buttons. The rest are in a menu. */
const direct = 2;

/** What one is most likely to want comes first, and what cannot be undone comes last. */
const order = ["restart", "resume", "start", "pause", "sleep", "stop", "delete"];

/** These take each other's place, and focus stays on the button. */
const opposites = ["pause", "resume", "start"];

/** The actions that the agent's status allows, in the order of the buttons. */
export function actionsOf(agent: Agent): AgentAction[] {
  const allowed = allowedActions(agent);
  if (agent.status === "error") {
    // Restart and start do the same to an agent in error. One of them is enough.
    return sorted(allowed.filter((action) => action !== "restart" || !allowed.includes("start")));
  }
  return sorted(allowed);
}

const sorted = (actions: AgentAction[]): AgentAction[] =>
  actions.toSorted((a, b) => order.indexOf(a) - order.indexOf(b));

/** The buttons of an agent's actions, each with a dialog that says what it costs. */
export function Actions({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  const [asking, setAsking] = useState<AgentAction>();
  const element = useKeptFocus();
  const actions = actionsOf(agent);
  const shown = actions.filter((action) => action !== "delete").slice(0, direct);
  const rest = actions.filter((action) => !shown.includes(action));
  const opposite = shown.find((action) => opposites.includes(action));
  const button = (action: AgentAction, before?: () => void) => {
    const { label, icon } = actionText(action, agent);
    return (
      <Button
        key={action === opposite ? "opposite" : action}
        icon={icon}
        kind={before === undefined ? "normal" : "plain"}
        unavailable={readOnly}
        onClick={() => {
          before?.();
          setAsking(action);
        }}
      >
        {label}
      </Button>
    );
  };
  return (
    <span class="agent-actions" ref={element}>
      {shown.map((action) => button(action))}
      {rest.length === 0 ? null : (
        <Menu icon="more" label="More actions" iconOnly>
          {(close) => rest.map((action) => button(action, close))}
        </Menu>
      )}
      {asking === undefined ? null : (
        <AskAction agent={agent} action={asking} onClose={() => setAsking(undefined)} />
      )}
    </span>
  );
}

/** Moves focus to the menu when the button that had it is gone: the status does not allow its action any more. */
function useKeptFocus() {
  const element = useRef<HTMLSpanElement>(null);
  const had = element.current?.contains(document.activeElement) ?? false;
  useLayoutEffect(() => {
    if (had && document.activeElement === document.body) {
      element.current?.querySelector<HTMLElement>(".menu button")?.focus();
    }
  });
  return element;
}

/** The dialog of an action. */
export function AskAction(props: { agent: Agent; action: AgentAction; onClose: () => void }) {
  return props.action === "delete" ? (
    <DeleteDialog agent={props.agent} onClose={props.onClose} />
  ) : (
    <ActionDialog {...props} />
  );
}

/** A button for one action anywhere on the page. It is not there if the agent's status does not allow the action. */
export function ActionButton(props: { agent: Agent; action: AgentAction; primary?: boolean }) {
  const { agent, action, primary = false } = props;
  const readOnly = useReadOnly();
  const [asking, setAsking] = useState(false);
  const { label, icon } = actionText(action, agent);
  const danger = action === "delete";
  return (
    <>
      {allows(agent, action) ? (
        <Button
          icon={icon}
          kind={danger ? "danger" : primary ? "primary" : "normal"}
          unavailable={readOnly}
          onClick={() => setAsking(true)}
        >
          {danger ? "Delete the agent" : `${label} the agent`}
        </Button>
      ) : null}
      {asking ? <AskAction agent={agent} action={action} onClose={() => setAsking(false)} /> : null}
    </>
  );
}
