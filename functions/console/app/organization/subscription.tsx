import type { Subscription } from "@agents.example/client/schema";
import { type ComponentChildren, Fragment } from "preact";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Failure, Notice } from "../ui/feedback";
import { planName } from "../ui/format";
import { type Tone, toneIcons } from "../ui/tone";
import { Time } from "../ui/time";
import { isGranted } from "./granted";
import type { Portal } from "./portal";

const statuses: Record<string, { tone: Tone; text: string }> = {
  none: { tone: "idle", text: "No subscription" },
  trialing: { tone: "good", text: "Trial" },
  active: { tone: "good", text: "Active" },
  past_due: { tone: "bad", text: "Payment overdue" },
  canceled: { tone: "idle", text: "Ended" },
};

/** What the organization pays for now. */
export function SubscriptionCard({ subscription, portal }: { subscription: Subscription; portal: Portal }) {
  const granted = isGranted(subscription);
  const status = statuses[subscription.status] ?? { tone: "idle" as Tone, text: subscription.status };
  return (
    <section class="card">
      <div class="head">
        <h2>{planName(subscription.plan)} plan</h2>
        {granted ? null : (
          <>
            <Badge {...status} icon={toneIcons[status.tone]} />
            <span class="actions">
              <Button
                icon="external"
                kind={subscription.status === "past_due" ? "primary" : "normal"}
                busy={portal.busy}
                unavailable={portal.unavailable}
                onClick={portal.open}
              >
                {subscription.status === "past_due" ? "Pay in the billing portal" : "Open the billing portal"}
              </Button>
            </span>
          </>
        )}
      </div>
      <div class="body stack">
        {granted ? <Granted /> : <Period subscription={subscription} />}
        {portal.unavailable === undefined || granted ? null : <p class="small quiet">{portal.unavailable}</p>}
        {portal.error === undefined ? null : <Failure error={portal.error} retry={portal.open} busy={portal.busy} />}
      </div>
    </section>
  );
}

const endText = ({ status, cancel_at_period_end: ends }: Subscription): string =>
  ends ? "Ends" : status === "past_due" ? "Period ends" : "Renews";

function Granted() {
  return (
    <Notice tone="idle" title="Your plan is set by contract, or by the operator of this service">
      There is no subscription to change or to cancel here. Contact support to change the plan. The new limits apply as
      soon as it is set.
    </Notice>
  );
}

function Period({ subscription }: { subscription: Subscription }) {
  const { interval, current_period_start: start, current_period_end: end, pending_plan: pending } = subscription;
  if (subscription.status === "none" || subscription.status === "canceled") {
    return (
      <p>
        {subscription.status === "none"
          ? "The organization has no subscription, and pays nothing."
          : "The subscription has ended, and the organization pays nothing."}{" "}
        Choose a plan below to have more or larger agents.
      </p>
    );
  }
  const facts: [string, ComponentChildren][] = [];
  if (interval !== null) {
    facts.push(["Paid", interval === "month" ? "Monthly" : interval === "year" ? "Yearly" : `Every ${interval}`]);
  }
  if (start !== null) {
    facts.push(["Period began", <Time value={start} date />]);
  }
  if (end !== null) {
    facts.push([endText(subscription), <Time value={end} date />]);
  }
  return (
    <>
      {subscription.cancel_at_period_end ? (
        <Notice tone="warn" title="The subscription ends with the period">
          The organization moves to the Hobby plan then, and agents that do not fit are paused. To keep the
          subscription, open the billing portal and renew it.
        </Notice>
      ) : pending === null ? null : (
        <Notice tone="busy" title={`The ${planName(pending)} plan is next`}>
          It begins when the period ends. Until then, the {planName(subscription.plan)} plan stays.
        </Notice>
      )}
      <dl class="facts">
        {facts.map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
      </dl>
      <p class="small quiet">The billing portal has invoices and payment methods.</p>
    </>
  );
}
