import type { Webhook, WebhookDelivery } from "@agents.example/client/schema";
import { call } from "../api/client";
import { type Pages, usePages } from "../api/pages";
import { useSubmit } from "../api/submit";
import { eventTitle } from "../events/event-text";
import { href } from "../router";
import { toast } from "../ui/announce";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Failure, Following } from "../ui/feedback";
import { plural } from "../ui/format";
import { Time } from "../ui/time";
import { webhookPath } from "./paths";
import { type Column, RecordTable } from "./table";
import { attemptText, deliveryState } from "./webhook-text";

const every = 3_000;

/** Follows the deliveries of a webhook, the newest first. */
export const useDeliveries = (id: string): Pages<WebhookDelivery> =>
  usePages<WebhookDelivery>(`${webhookPath(id)}/deliveries`, { every });

/** What was sent to the receiver, and what it answered. */
export function WebhookDeliveries({ hook, pages }: { hook: Webhook; pages: Pages<WebhookDelivery> }) {
  const columns: Column<WebhookDelivery>[] = [
    { head: "Event", cell: (delivery) => <About delivery={delivery} /> },
    { head: "Created", cell: ({ created_at }) => <Time value={created_at} /> },
    { head: "Status", cell: (delivery) => <State delivery={delivery} /> },
    { head: "Attempts", cell: (delivery) => <Attempts delivery={delivery} /> },
    {
      head: "Actions",
      actions: true,
      cell: (delivery) =>
        delivery.status === "pending" ? null : (
          <Redeliver hook={hook} delivery={delivery} onRequested={pages.refresh} />
        ),
    },
  ];
  return (
    <section class="card" aria-label="Deliveries">
      <div class="head">
        <h2>Deliveries</h2>
      </div>
      <Following live={pages} what="the deliveries">
        {(deliveries) =>
          deliveries.length === 0 ? (
            <p class="body quiet">Nothing was sent yet. Send a test event to try the receiver.</p>
          ) : (
            <RecordTable label="Deliveries" columns={columns} rows={deliveries} id={({ id }) => id} />
          )
        }
      </Following>
      {pages.more ? (
        <div class="body">
          <Button busy={pages.loading} onClick={pages.loadMore}>
            Show more
          </Button>
        </div>
      ) : null}
    </section>
  );
}

function About({ delivery }: { delivery: WebhookDelivery }) {
  const { event_type: type, event_id: id, agent_id: agent } = delivery;
  return (
    <div class="stack-tight named">
      <strong>{eventTitle(type)}</strong>
      <code class="small quiet">{id}</code>
      {agent === null ? null : (
        <a class="small" href={href(["agents", agent])}>
          Agent {agent.slice(0, 8)}…
        </a>
      )}
    </div>
  );
}

function State({ delivery }: { delivery: WebhookDelivery }) {
  return (
    <div class="stack-tight">
      <span>
        <Badge {...deliveryState(delivery)} />
      </span>
      {delivery.next_attempt_at === null ? null : (
        <span class="small quiet">
          Next attempt <Time value={delivery.next_attempt_at} />
        </span>
      )}
    </div>
  );
}

function Attempts({ delivery: { attempts } }: { delivery: WebhookDelivery }) {
  const last = attempts.at(-1);
  if (last === undefined) {
    return <span class="quiet">None yet</span>;
  }
  if (attempts.length === 1) {
    return <span>{attemptText(last)}</span>;
  }
  return (
    <details>
      <summary>
        {plural(attempts.length, "attempt")}, last: {attemptText(last)}
      </summary>
      <ol class="small">
        {attempts.map((attempt) => (
          <li key={attempt.at}>
            <Time value={attempt.at} />: {attemptText(attempt)}
          </li>
        ))}
      </ol>
    </details>
  );
}

function Redeliver(props: { hook: Webhook; delivery: WebhookDelivery; onRequested: () => void }) {
  const { hook, delivery, onRequested } = props;
  const repeat = useSubmit(async (intent) => {
    await call(`${webhookPath(hook.id)}/deliveries/${delivery.id}/redeliver`, { method: "POST", intent });
    toast("The event is sent again.");
    onRequested();
  });
  return (
    <>
      <Button icon="refresh" busy={repeat.busy} onClick={() => void repeat.send()}>
        Redeliver<span class="visually-hidden"> {eventTitle(delivery.event_type)}</span>
      </Button>
      {repeat.error === undefined ? null : <Failure error={repeat.error} />}
    </>
  );
}
