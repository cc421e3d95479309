import type { Organization } from "@agents.example/client/schema";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useMe } from "../account";
import { serverNow } from "../api/clock";
import { useLive } from "../api/live";
import { href, navigate, useRoute } from "../router";
import { Notice } from "../ui/feedback";
import { Time } from "../ui/time";
import { forgetCheckout, useCheckout } from "./checkout";
import { organizationPath } from "./paths";

const every = 30_000;

/** Says on every page that a payment is overdue, and what happens when. */
export function BillingBanner() {
  const me = useMe();
  useReturnToBilling(me.organization?.id);
  return me.organization === null ? null : <Banner admin={me.role === "admin"} />;
}

function Banner({ admin }: { admin: boolean }) {
  const { data } = useLive<Organization>(organizationPath, { every });
  const there = useRoute().segments[0] === "billing";
  if (data === undefined || data.status === "active") {
    return null;
  }
  const link = there ? undefined : <a href={href(["billing"])}>Go to billing</a>;
  const actions: ComponentChildren = admin ? link : "An admin can pay it.";
  if (data.status === "suspended") {
    return (
      <Notice tone="bad" title="The organization is suspended" actions={link}>
        Its agents are paused. They can be read and deleted, but not created or started. Contact support.
      </Notice>
    );
  }
  return (
    <Notice tone="warn" title="A payment is overdue" actions={actions}>
      <PastDue end={data.grace_ends_at} />
    </Notice>
  );
}

function PastDue({ end }: { end: string | null }) {
  if (end === null) {
    return <span>No agent can be created or started until it is paid, and running agents will be paused.</span>;
  }
  if (new Date(end).getTime() <= serverNow()) {
    return (
      <span>
        Your agents are paused since <Time value={end} date />. They run again once it is paid.
      </span>
    );
  }
  return (
    <span>
      Running agents are paused on <Time value={end} date /> unless it is paid. Until then, no agent can be created or
      started.
    </span>
  );
}

/** The payment provider sends people back to the page without a place in it. */
function useReturnToBilling(organization: string | undefined): void {
  const checkout = useCheckout(organization);
  useEffect(() => {
    if (checkout === undefined) {
      return;
    }
    if (location.hash.replace(/^#\/?/, "") === "") {
      navigate(href(["billing"]), { replace: true });
    }
    if (checkout.plan === undefined) {
      forgetCheckout(); // the portal may have changed nothing
    }
  }, [checkout]);
}
