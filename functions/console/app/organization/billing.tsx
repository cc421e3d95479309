import type { Plan, Subscription } from "@agents.example/client/schema";
import { useLive } from "../api/live";
import { useTitle } from "../router";
import { Following } from "../ui/feedback";
import { CheckoutReturn } from "./checkout-return";
import { plansPath, subscriptionPath } from "./paths";
import { Plans } from "./plans";
import { usePortal } from "./portal";
import { SubscriptionCard } from "./subscription";

const plansEvery = 300_000;
/** How often to ask while a change of the plan is expected. */
const subscriptionQuick = 2_000;

/** What the organization pays for, and the plans that it can choose. */
export function BillingPage() {
  useTitle("Billing");
  const subscription = useLive<Subscription>(subscriptionPath, { quick: subscriptionQuick });
  const plans = useLive<Plan[]>(plansPath, { every: plansEvery });
  const portal = usePortal(subscription.data);
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Billing</h1>
      </div>
      <Following live={subscription} what="the subscription">
        {(data) => (
          <>
            <CheckoutReturn subscription={data} />
            <SubscriptionCard subscription={data} portal={portal} />
            <Following live={plans} what="the plans">
              {(all) => <Plans plans={all} subscription={data} />}
            </Following>
          </>
        )}
      </Following>
    </>
  );
}
