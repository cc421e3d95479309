import type { Agent, AgentSnapshot } from "@agents.example/client/schema";
import { listText } from "../ui/format";
import { Moment } from "./moment";

/** What a copy of an agent has, and what it does not have. */
export function CopyFacts({ agent, snapshot }: { agent: Agent; snapshot: AgentSnapshot }) {
  const secrets = secretsOf(agent);
  return (
    <section class="stack-tight" aria-label="What is copied">
      <p>
        The new agent begins with the data of{" "}
        <strong>
          <Moment value={snapshot.taken_at ?? snapshot.created_at} />
        </strong>
        . It has the region, the image, the variables, the files and the settings of “{agent.name}”. These are not
        copied:
      </p>
      <ul class="losses">
        <li>
          <strong>Credentials and address.</strong> It gets its own.
        </li>
        <li>
          <strong>Values of secrets.</strong>{" "}
          {secrets.length === 0
            ? "The agent has no secrets."
            : `Set them below, or after the creation: ${listText(secrets)}.`}
        </li>
        <li>
          <strong>Schedules are off.</strong>{" "}
          {agent.schedules.length === 0
            ? "The agent has none."
            : agent.schedules.length === 1
              ? "One is copied. Turn it on if the copy shall be called, too."
              : `${agent.schedules.length} are copied. Turn on those that shall call the copy, too.`}
        </li>
        <li>
          <strong>Public paths are off.</strong>{" "}
          {agent.public_paths.length === 0
            ? "The agent has none."
            : `Anyone may request ${listText(agent.public_paths)} of “${agent.name}”, and nothing of the copy.`}
        </li>
      </ul>
    </section>
  );
}

/** The names of secrets that the agent has, in its variables and its files, and those that it lacks itself. */
function secretsOf({ env_vars, files, unset_secrets }: Agent): string[] {
  const variables = Object.keys(env_vars).filter((name) => env_vars[name] === "gsm");
  const inFiles = files.flatMap(({ secret }) => secret ?? []);
  return [...new Set([...variables, ...inFiles, ...unset_secrets])].sort();
}
