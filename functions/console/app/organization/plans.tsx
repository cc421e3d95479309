import type { Plan, Subscription } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { formatBytes, formatCores, formatPrice, planName, plural } from "../ui/format";
import { formatDuration } from "../ui/time";
import { FeatureNames } from "./features";
import { isGranted } from "./granted";
import { ChangePlan, usePayment } from "./plan-change";

/** All plans side by side, and the way to another one. */
export function Plans({ plans, subscription }: { plans: Plan[]; subscription: Subscription }) {
  const readOnly = useReadOnly();
  const [interval, setInterval] = useState(subscription.interval ?? "month");
  const [chosen, setChosen] = useState<Plan>();
  const checkout = usePayment();
  const granted = isGranted(subscription);
  const reason = granted ? undefined : unavailability(subscription, readOnly);
  return (
    <section class="stack">
      <div class="page-head">
        <h2>Plans</h2>
        {granted ? null : (
          <span class="actions">
            <span class="segments" role="group" aria-label="Billing interval">
              <Button kind="plain" pressed={interval === "month"} onClick={() => setInterval("month")}>
                Pay monthly
              </Button>
              <Button kind="plain" pressed={interval === "year"} onClick={() => setInterval("year")}>
                Pay yearly
              </Button>
            </span>
          </span>
        )}
      </div>
      {reason === undefined ? null : <p class="quiet">{reason}</p>}
      <div class="plans">
        {plans.map((plan) => (
          <PlanCard
            key={plan.id}
            plan={plan}
            subscription={subscription}
            interval={interval}
            reason={reason}
            next={plans[plans.findIndex((other) => other.id === subscription.plan) + 1] === plan}
            onChoose={() => setChosen(plan)}
          />
        ))}
      </div>
      <p class="small quiet">
        Prices are for a month, without taxes.{" "}
        {interval === "year" ? "The page on which you pay shows the price of a year. " : ""}
        An agent may have the size of a smaller plan.
      </p>
      {chosen === undefined ? null : (
        <ChangePlan
          key={chosen.id}
          checkout={checkout}
          plan={chosen}
          smaller={plans.indexOf(chosen) < plans.findIndex((plan) => plan.id === subscription.plan)}
          interval={interval}
          subscription={subscription}
          onClose={() => {
            if (!checkout.busy) {
              checkout.forget(); // otherwise, the same press again must be a repeat
            }
            setChosen(undefined);
          }}
        />
      )}
    </section>
  );
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Why no plan can be chosen. */
function unavailability(subscription: Subscription, readOnly: string | undefined): string | undefined {
  if (readOnly !== undefined) {
    return readOnly;
  }
  return subscription.status === "past_due" ? "Pay the open invoice in the billing portal first." : undefined;
}

interface CardProps {
  plan: Plan;
  subscription: Subscription;
  interval: string;
  reason: string | undefined;
  /** Whether it is the next larger plan. */
  next: boolean;
  onChoose: () => void;
}

function PlanCard({ plan, subscription, interval, reason, next, onChoose }: CardProps) {
  const current = plan.id === subscription.plan;
  const byContract = plan.price_usd_month === null;
  return (
    <article class={current ? "card plan current" : "card plan"} aria-labelledby={`plan-${plan.id}`}>
      <div class="row">
        <h3 id={`plan-${plan.id}`}>{plan.name}</h3>
        {current ? <Badge tone="good" icon="check" text="Current plan" /> : null}
        {subscription.pending_plan === plan.id ? <Badge tone="busy" icon="waiting" text="Next" /> : null}
      </div>
      <p class="price">{sentence(formatPrice(plan.price_usd_month))}</p>
      <ul class="sizes">
        <li>Up to {plural(plan.max_agents, "agent")}</li>
        <li class="quiet">
          each at most {formatCores(plan.agent.cpu_cores)}, {formatBytes(plan.agent.memory_bytes)} memory,{" "}
          {formatBytes(plan.agent.storage_bytes)} storage
        </li>
        <li class="quiet">{sleepText(plan)}</li>
      </ul>
      <FeatureNames features={plan.features} />
      <div class="choose">
        {byContract ? (
          <p class="small quiet">{current ? "Set by your contract." : "By contract: contact support."}</p>
        ) : isGranted(subscription) || isUnchanged(plan, subscription, interval) ? null : (
          <Button kind={next ? "primary" : "normal"} unavailable={reason} onClick={onChoose}>
            {current ? changeText(subscription, interval) : `Change to ${planName(plan.id)}`}
          </Button>
        )}
      </div>
    </article>
  );
}

/** When agents of a plan fall asleep. Each of them can be set to another time. */
const sleepText = ({ sleep_after_seconds: after }: Plan): string =>
  after === null
    ? "Agents never sleep, unless you ask for it"
    : `Agents fall asleep after ${formatDuration(after * 1_000)} without use, unless you ask for another time`;

/** Whether choosing the plan would change nothing. */
function isUnchanged(plan: Plan, subscription: Subscription, interval: string): boolean {
  if (plan.id === subscription.pending_plan) {
    return true;
  }
  if (plan.id !== subscription.plan) {
    return false;
  }
  if (subscription.cancel_at_period_end) {
    return true; // the portal takes back a cancellation
  }
  const paid = subscription.interval !== null;
  return plan.id === "hobby" || !paid || (subscription.interval === interval && subscription.pending_plan === null);
}

const changeText = (subscription: Subscription, interval: string): string =>
  subscription.interval === interval ? "Keep this plan" : interval === "year" ? "Pay yearly" : "Pay monthly";
