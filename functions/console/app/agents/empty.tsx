import { useReadOnly } from "../account";
import { href, navigate } from "../router";
import { Button } from "../ui/button";
import { Icon } from "../ui/icons";

const steps = [
  ["Name it, and choose its size", "A plan sets the cores, memory and storage. Add the variables that it needs."],
  ["Watch it start", "It gets a namespace, a volume and an address. That usually takes less than a minute."],
  ["Use it", "Its dashboard opens with a click, and its API has HTTPS and a key."],
] as const;

/** What a newcomer sees: how to create the first agent, and what happens then. */
export function NoAgents() {
  const readOnly = useReadOnly();
  return (
    <div class="card empty">
      <Icon name="agents" />
      <h2>Create your first agent</h2>
      <p class="quiet">
        An agent is a program that runs for you day and night, in a space that no other agent can reach.
      </p>
      <ol class="first-steps">
        {steps.map(([title, text], i) => (
          <li key={title}>
            <span class="number" aria-hidden="true">
              {i + 1}
            </span>
            <strong>{title}</strong>
            <span class="quiet">{text}</span>
          </li>
        ))}
      </ol>
      <Button kind="primary" icon="plus" unavailable={readOnly} onClick={() => navigate(href(["agents", "new"]))}>
        Create an agent
      </Button>
      {readOnly === undefined ? null : <p class="quiet small">{readOnly}</p>}
    </div>
  );
}

export function NoMatch({ onClear }: { onClear: () => void }) {
  return (
    <div class="card empty">
      <h2>No agent matches</h2>
      <p class="quiet">Agents exist, but none has all that you chose above.</p>
      <Button onClick={onClear}>Show all agents</Button>
    </div>
  );
}
