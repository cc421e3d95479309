import type { Agent } from "@agents.example/client/schema";
import { CopyButton } from "../ui/copy";

/** How to call the agent. The key is neither in the address nor in the shell's history or the list of processes. */
export function Examples({ agent }: { agent: Agent }) {
  if (agent.api_url === null) {
    return null;
  }
  const read = "read -rs AGENT_API_KEY";
  const request = [
    `printf 'Authorization: Bearer %s' "$AGENT_API_KEY" |`,
    "  curl --fail-with-body -H @- \\",
    `  ${agent.api_url}/models`,
  ].join("\n");
  const user = agent.dashboard_username ?? "admin";
  const dashboard = [`curl --fail-with-body -u ${user} \\`, `  ${agent.dashboard_url ?? ""}`].join("\n");
  return (
    <section class="card" aria-label="Call the agent">
      <div class="head">
        <h2>Call the agent</h2>
      </div>
      <div class="body stack">
        <Example text={read} what="first command">
          Read the API key into a variable: run this, paste the key, and press Enter. It is not shown.
        </Example>
        <Example text={request} what="request to the API">
          Then call the API. Send the key in a header as here, never in the address, because addresses end up in logs.
          Which paths there are depends on what the agent runs.
        </Example>
        <Example text={dashboard} what="request to the dashboard">
          The dashboard takes the user name and the password. curl asks for the password.
        </Example>
      </div>
    </section>
  );
}

function Example({ text, what, children }: { text: string; what: string; children: string | string[] }) {
  return (
    <div class="stack-tight">
      <p>{children}</p>
      <div class="example">
        <pre class="code" tabIndex={0} aria-label={`The ${what}`}>
          {text}
        </pre>
        <CopyButton text={text} what={what} />
      </div>
    </div>
  );
}
