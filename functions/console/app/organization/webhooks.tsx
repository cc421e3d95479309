import type { Webhook } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { usePages } from "../api/pages";
import { href, useRoute, useTitle } from "../router";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Following, Notice } from "../ui/feedback";
import { Icon } from "../ui/icons";
import { Time } from "../ui/time";
import { webhooksPath } from "./paths";
import { type Column, RecordTable } from "./table";
import { CreateWebhook } from "./webhook-create";
import { WebhookPage } from "./webhook-page";
import { stateOf, typesText } from "./webhook-text";

/** The webhooks of the organization, or one of them with its deliveries. */
export function WebhooksPage() {
  const id = useRoute().segments[1];
  const readOnly = useReadOnly();
  if (readOnly !== undefined) {
    return <NotForMembers />;
  }
  return id === undefined ? <Webhooks /> : <WebhookPage key={id} id={id} />;
}

function NotForMembers() {
  useTitle("Webhooks");
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Webhooks</h1>
      </div>
      <Notice tone="idle" title="Only admins can see and change webhooks">
        <p>A webhook receives what only admins may see, such as the names of secrets. Ask an admin for one.</p>
      </Notice>
    </>
  );
}

const every = 10_000;

function Webhooks() {
  useTitle("Webhooks");
  const pages = usePages<Webhook>(webhooksPath, { every });
  const [creating, setCreating] = useState(false);
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Webhooks</h1>
        <span class="actions">
          <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
            Create a webhook
          </Button>
        </span>
      </div>
      <p class="quiet lead">
        The service sends each event of the organization to your webhooks: what became of agents, secrets, keys and the
        plan. Requests are signed as Standard Webhooks says.
      </p>
      <Following live={pages} what="the webhooks">
        {(hooks) =>
          hooks.length === 0 ? (
            <NoWebhooks />
          ) : (
            <section class="card" aria-label="Webhooks">
              <RecordTable label="Webhooks" columns={columns} rows={hooks} id={({ id }) => id} />
            </section>
          )
        }
      </Following>
      {creating ? <CreateWebhook onChange={pages.refresh} onClose={() => setCreating(false)} /> : null}
    </>
  );
}

const columns: Column<Webhook>[] = [
  {
    head: "Receiver",
    cell: (hook) => (
      <div class="stack-tight named">
        <a href={href(["webhooks", hook.id])}>{hook.url}</a>
        {hook.description === "" ? null : <span class="small quiet">{hook.description}</span>}
      </div>
    ),
  },
  { head: "Events", cell: typesText },
  { head: "State", cell: (hook) => <Badge {...stateOf(hook)} /> },
  { head: "Created", cell: (hook) => <Time value={hook.created_at} /> },
];

function NoWebhooks() {
  return (
    <div class="card empty">
      <Icon name="webhook" />
      <h2>No webhooks yet</h2>
      <p class="quiet">Create one to hear of failures in your own systems without asking for them.</p>
    </div>
  );
}
