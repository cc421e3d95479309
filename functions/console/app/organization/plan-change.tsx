import type { Plan, BillingSession, Subscription, CreateCheckoutSessionRequest } from "@agents.example/client/schema";
import { useEffect } from "preact/hooks";
import { useMe } from "../account";
import { call } from "../api/client";
import type { CallError } from "../api/errors";
import { href } from "../router";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure, Notice } from "../ui/feedback";
import { formatBytes, formatCores, formatPrice, planName } from "../ui/format";
import { Time } from "../ui/time";
import { leaveFor } from "./checkout";
import { type Submit, useSubmit } from "../api/submit";

interface Props {
  checkout: Submit<CreateCheckoutSessionRequest>;
  plan: Plan;
  /** Whether the plan is smaller than the present one. */
  smaller: boolean;
  interval: string;
  subscription: Subscription;
  onClose: () => void;
}

/** Leaves for the page on which a plan is paid. The page has one, which goes on when the dialog is closed. */
export function usePayment(): Submit<CreateCheckoutSessionRequest> {
  const organization = useMe().organization?.id ?? "";
  return useSubmit<CreateCheckoutSessionRequest>(async (intent, body) => {
    const path = "/api/v1/billing/checkout-session";
    const { data } = await call<BillingSession>(path, { method: "POST", body, intent });
    await leaveFor(data.url, { organization, ...body });
  });
}

/** Says what a change of the plan means, and leaves for the page on which it is paid. */
export function ChangePlan({ checkout, plan, smaller, interval, subscription, onClose }: Props) {
  useCloseOnReturn(onClose);
  const submit = () => void checkout.send({ plan: plan.id, interval });
  const free = plan.price_usd_month === 0;
  return (
    <Dialog
      title={plan.id === subscription.plan ? `Change the ${planName(plan.id)} plan` : `Change to ${planName(plan.id)}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Stay here</Button>
          <Button kind="primary" icon="external" busy={checkout.busy} onClick={submit}>
            {free ? "Continue to cancel" : "Continue to payment"}
          </Button>
        </>
      }
    >
      <p>
        <strong>
          {plan.name}, {formatPrice(plan.price_usd_month)}
        </strong>
        {free || interval === "month" ? "" : ", paid by the year"}
      </p>
      <Effect plan={plan} smaller={smaller} subscription={subscription} />
      <p class="quiet small">
        You continue on the payment provider’s page, which shows the exact amount before you confirm. Nothing changes
        until then, and this service does not see your card.
      </p>
      {checkout.error === undefined ? null : checkout.error.code === "usage_over_plan" ? (
        <TooLarge error={checkout.error} plan={plan} />
      ) : (
        <Failure error={checkout.error} retry={submit} busy={checkout.busy} />
      )}
    </Dialog>
  );
}

/** The browser may keep the page in memory while the person is at the provider's. */
function useCloseOnReturn(onClose: () => void): void {
  useEffect(() => {
    const onShow = (event: PageTransitionEvent) => event.persisted && onClose();
    addEventListener("pageshow", onShow);
    return () => removeEventListener("pageshow", onShow);
  }, []);
}

function Effect({ plan, smaller, subscription }: Pick<Props, "plan" | "smaller" | "subscription">) {
  const end = subscription.current_period_end;
  const when = end === null ? "at the end of the period" : <Time value={end} date />;
  if (plan.price_usd_month === 0) {
    return (
      <p>
        You cancel the subscription. For that, your agents must fit into the {plan.name} plan. The{" "}
        {planName(subscription.plan)} plan stays until it ends ({when}), and agents that do not fit then are paused.
      </p>
    );
  }
  if (smaller) {
    return <p>The smaller plan begins when the paid period ends ({when}), if your agents fit into it.</p>;
  }
  return plan.id === subscription.plan ? (
    <p>The plan stays, and is paid as you chose from now on.</p>
  ) : (
    <p>The larger plan begins as soon as it is paid. Your agents keep running.</p>
  );
}

interface Excess {
  limit: string;
  current: number | string;
  max: number | string;
  agent_id?: string;
  name?: string;
}

const limits: Record<string, [string, (value: number) => string]> = {
  agents: ["Agents", String],
  cpu_cores: ["CPU of all agents", formatCores],
  memory_bytes: ["Memory of all agents", formatBytes],
  storage_bytes: ["Storage of all agents", formatBytes],
  api_keys: ["API keys", String],
};

/** What an agent does not occupy while it is stopped. */
const freedByStop = ["cpu_cores", "memory_bytes"];

/** What must become smaller before the organization fits into a smaller plan. */
function TooLarge({ error, plan }: { error: CallError; plan: Plan }) {
  const over = (Array.isArray(error.meta["over"]) ? error.meta["over"] : []) as Excess[];
  const byStop = over.every(({ limit, agent_id }) => agent_id === undefined && freedByStop.includes(limit));
  return (
    <Notice tone="bad" live title={`The organization does not fit into the ${plan.name} plan yet`}>
      <ul class="stack-tight">
        {over.map((excess) => (
          <li key={excess.limit + (excess.agent_id ?? "")}>
            {excess.agent_id === undefined ? (
              amount(excess)
            ) : (
              <>
                <a href={href(["agents", excess.agent_id])}>{excess.name ?? excess.agent_id}</a> has the size{" "}
                {planName(String(excess.current))}, which is too large.
              </>
            )}
          </li>
        ))}
      </ul>
      <p>{byStop ? "Stop or delete agents" : "Delete what is too much"}, then try again.</p>
    </Notice>
  );
}

function amount({ limit, current, max }: Excess): string {
  const [name, format] = limits[limit] ?? [limit, String];
  return `${name}: ${format(Number(current))} in use, ${format(Number(max))} in the plan.`;
}
