import type { Subscription } from "@agents.example/client/schema";
import { useEffect, useState } from "preact/hooks";
import { useMe } from "../account";
import { refreshLive } from "../api/live";
import { announce } from "../ui/announce";
import { Button } from "../ui/button";
import { Notice } from "../ui/feedback";
import { planName } from "../ui/format";
import { Time, useLocalNow } from "../ui/time";
import { type Checkout, forgetCheckout, useCheckout, useReturned } from "./checkout";
import { organizationPath, subscriptionPath } from "./paths";

/** How long the page asks quickly for the change after a return. */
const patience = 60_000;

/** Says what came of a visit of the payment provider's page. */
export function CheckoutReturn({ subscription }: { subscription: Subscription }) {
  const checkout = useCheckout(useMe().organization?.id);
  return checkout?.plan === undefined ? null : (
    <Outcome subscription={subscription} checkout={checkout} plan={checkout.plan} />
  );
}

interface OutcomeProps {
  subscription: Subscription;
  checkout: Checkout;
  plan: string;
}

function Outcome({ subscription, checkout, plan }: OutcomeProps) {
  const now = useLocalNow();
  const came = useReturned();
  const [since, setSince] = useState(came);
  const result = resultOf(subscription, checkout);
  const done = result !== undefined;
  const waiting = !done && now - Math.max(since, came) < patience;
  useEffect(() => {
    if (done) {
      refreshLive("/api/v1/me");
      refreshLive(organizationPath);
      announce("The change of the plan is confirmed.");
    }
  }, [done]);
  useEffect(() => {
    if (!waiting) {
      return;
    }
    const timer = setInterval(() => refreshLive(subscriptionPath), 5_000);
    refreshLive(subscriptionPath);
    return () => clearInterval(timer);
  }, [waiting]);
  if (done) {
    return (
      <Notice tone="good" live title={result} actions={<Button onClick={forgetCheckout}>Dismiss</Button>}>
        {plan === subscription.plan ? "Its limits apply already." : <Later subscription={subscription} />}
      </Notice>
    );
  }
  if (waiting) {
    return (
      <Notice
        tone="busy"
        live
        title="Waiting for the payment provider"
        actions={<Button onClick={forgetCheckout}>I did not pay</Button>}
      >
        The provider confirms a change within seconds, usually. If you left its page without finishing, nothing changed.
      </Notice>
    );
  }
  const actions = (
    <>
      <Button icon="refresh" onClick={() => setSince(Date.now())}>
        Wait longer
      </Button>
      <Button onClick={forgetCheckout}>Dismiss</Button>
    </>
  );
  return (
    <Notice tone="warn" live title="No change has arrived" actions={actions}>
      If you left the provider’s page without finishing, nothing changed, and nothing was charged. If you paid, the
      confirmation is late: it arrives without your help, and this page shows it. Do not pay again.
    </Notice>
  );
}

function Later({ subscription }: { subscription: Subscription }) {
  return subscription.current_period_end === null ? null : (
    <span>
      Until <Time value={subscription.current_period_end} date />, the {planName(subscription.plan)} plan stays.
    </span>
  );
}

/** What changed as the person wanted, in words; undefined while it has not. */
function resultOf(subscription: Subscription, { plan = "", interval }: Checkout): string | undefined {
  const pending = subscription.pending_plan;
  if (pending === plan) {
    return plan === "hobby"
      ? "The subscription is canceled at the end of the period"
      : `The change to the ${planName(plan)} plan is confirmed`;
  }
  const isNow = subscription.plan === plan && pending === null;
  return isNow && (subscription.interval === interval || plan === "hobby")
    ? `The organization is on the ${planName(plan)} plan`
    : undefined;
}
