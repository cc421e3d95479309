import type { Subscription } from "@agents.example/client/schema";

/** Whether a contract or the operator sets the plan, so that there is no subscription to change. */
export const isGranted = ({ provider, plan, status }: Subscription): boolean =>
  provider === "manual" || (plan !== "hobby" && (status === "none" || status === "canceled"));
