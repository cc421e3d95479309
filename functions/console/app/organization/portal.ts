import type { BillingSession, Subscription } from "@agents.example/client/schema";
import { useMe, useReadOnly } from "../account";
import { call } from "../api/client";
import type { CallError } from "../api/errors";
import { leaveFor } from "./checkout";
import { useSubmit } from "../api/submit";

/** The way to the payment provider's portal. */
export interface Portal {
  open: () => void;
  busy: boolean;
  error: CallError | undefined;
  unavailable: string | undefined;
}

export function usePortal(subscription: Subscription | undefined): Portal {
  const organization = useMe().organization?.id ?? "";
  const readOnly = useReadOnly();
  const opening = useSubmit(async (intent) => {
    const { data } = await call<BillingSession>("/api/v1/billing/portal-session", { method: "POST", intent });
    await leaveFor(data.url, { organization });
  });
  const unavailable =
    readOnly ?? (subscription?.status === "none" ? "The billing portal opens with the first subscription." : undefined);
  return { open: () => void opening.send(), busy: opening.busy, error: opening.error, unavailable };
}
