import { isNotFound } from "@agents.example/client/error";
import type { Webhook, WebhookDelivery } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { putLive, useLive } from "../api/live";
import { useSubmit } from "../api/submit";
import { href, navigate, useTitle } from "../router";
import { toast } from "../ui/announce";
import { Badge } from "../ui/badge";
import { Button, LinkButton } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure, Following } from "../ui/feedback";
import { Icon } from "../ui/icons";
import { SubmitFailure } from "../ui/submit-failure";
import { Time } from "../ui/time";
import { webhookPath } from "./paths";
import { useDeliveries, WebhookDeliveries } from "./webhook-deliveries";
import { sameTypes, type WebhookDraft, WebhookForm } from "./webhook-form";
import { RotateSecret } from "./webhook-rotate";
import { stateOf, typesText } from "./webhook-text";

const every = 10_000;

/** One webhook: what it receives, and its deliveries. */
export function WebhookPage({ id }: { id: string }) {
  const live = useLive<Webhook>(webhookPath(id), { every, endsWhenGone: true });
  useTitle("Webhook");
  if (isNotFound(live.error)) {
    return (
      <div class="card empty">
        <h1 tabIndex={-1}>There is no such webhook</h1>
        <p class="quiet">It was deleted, or the address is mistyped.</p>
        <LinkButton href={href(["webhooks"])}>Go to the webhooks</LinkButton>
      </div>
    );
  }
  return (
    <>
      {live.data === undefined ? <h1 tabIndex={-1}>Webhook</h1> : null}
      <Following live={live} what="the webhook">
        {(hook) => <Details hook={hook} />}
      </Following>
    </>
  );
}

type Asking = "edit" | "rotate" | "delete";

function Details({ hook }: { hook: Webhook }) {
  const [asking, setAsking] = useState<Asking>();
  const deliveries = useDeliveries(hook.id);
  const test = useSubmit(async (intent) => {
    await call<WebhookDelivery>(`${webhookPath(hook.id)}/test`, { method: "POST", intent });
    toast("A test event is on its way.");
    deliveries.refresh();
  });
  const toggle = useSubmit<boolean>(async (intent, enabled) => {
    const answer = await call<Webhook>(webhookPath(hook.id), { method: "PATCH", body: { enabled }, intent });
    putLive(webhookPath(hook.id), answer.data);
    toast(enabled ? "The webhook is enabled." : "The webhook is disabled.");
  });
  const enabled = hook.status === "enabled";
  const close = () => setAsking(undefined);
  return (
    <>
      <a class="way-back" href={href(["webhooks"])}>
        <Icon name="back" />
        All webhooks
      </a>
      <div class="page-head">
        <h1 class="webhook-url" tabIndex={-1}>
          {hook.url}
        </h1>
        <Badge {...stateOf(hook)} />
        <span class="actions">
          <Button icon="play" busy={test.busy} onClick={() => void test.send()}>
            Send a test event
          </Button>
          <Button icon="pencil" onClick={() => setAsking("edit")}>
            Edit
          </Button>
          <Button
            icon={enabled ? "paused" : "play"}
            busy={toggle.busy}
            onClick={() => void toggle.send(!enabled)}
          >
            {enabled ? "Disable" : "Enable"}
          </Button>
          <Button icon="refresh" onClick={() => setAsking("rotate")}>
            Rotate the secret
          </Button>
          <Button icon="trash" kind="danger" onClick={() => setAsking("delete")}>
            Delete
          </Button>
        </span>
      </div>
      {[test.error, toggle.error].map((error, i) => (error === undefined ? null : <Failure key={i} error={error} />))}
      <Facts hook={hook} />
      <WebhookDeliveries hook={hook} pages={deliveries} />
      {asking === "edit" ? <EditWebhook hook={hook} onClose={close} /> : null}
      {asking === "rotate" ? <RotateSecret hook={hook} onClose={close} /> : null}
      {asking === "delete" ? <DeleteWebhook hook={hook} onClose={close} /> : null}
    </>
  );
}

function Facts({ hook }: { hook: Webhook }) {
  return (
    <section class="card" aria-label="Settings">
      <div class="body">
        <dl class="facts">
          {hook.description === "" ? null : (
            <>
              <dt>Description</dt>
              <dd>{hook.description}</dd>
            </>
          )}
          <dt>Events</dt>
          <dd>{typesText(hook)}</dd>
          <dt>Created</dt>
          <dd>
            <Time value={hook.created_at} />
          </dd>
          {hook.failing_since === null ? null : (
            <>
              <dt>Failing since</dt>
              <dd>
                <Time value={hook.failing_since} />. After three days without a success, the service disables it.
              </dd>
            </>
          )}
        </dl>
      </div>
    </section>
  );
}

function EditWebhook({ hook, onClose }: { hook: Webhook; onClose: () => void }) {
  const [opened] = useState(hook);
  const change = useSubmit<WebhookDraft>(async (intent, draft) => {
    const body = changesOf(opened, draft);
    const answer = await call<Webhook>(webhookPath(hook.id), { method: "PATCH", body, intent });
    putLive(webhookPath(hook.id), answer.data);
    toast("The webhook is changed.");
    onClose();
  });
  return <WebhookForm title="Edit the webhook" label="Save" start={opened} submit={change} onClose={onClose} />;
}

/** What a person changed. The other fields stay as they are, also if another admin has changed them since. */
const changesOf = (opened: Webhook, { url, description, types }: WebhookDraft): Partial<WebhookDraft> => ({
  ...(url === opened.url ? {} : { url }),
  ...(description === opened.description ? {} : { description }),
  ...(sameTypes(types, opened.types) ? {} : { types }),
});

function DeleteWebhook({ hook, onClose }: { hook: Webhook; onClose: () => void }) {
  const deletion = useSubmit(async (intent) => {
    await call(webhookPath(hook.id), { method: "DELETE", intent });
    toast("The webhook is deleted.");
    navigate(href(["webhooks"]));
  });
  return (
    <Dialog
      title="Delete the webhook?"
      onClose={onClose}
      action={
        <Button kind="danger" icon="trash" busy={deletion.busy} onClick={() => void deletion.send()}>
          Delete the webhook
        </Button>
      }
    >
      <p>
        <code>{hook.url}</code> receives no further events, and its deliveries are no longer listed. To stop the
        deliveries for a while, disable it.
      </p>
      <SubmitFailure submit={deletion} title="The webhook was not deleted" />
    </Dialog>
  );
}
