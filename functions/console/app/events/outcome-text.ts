/** Why calls are refused, in words. */
export const refusals: Record<string, string> = {
  validation_error: "Invalid input",
  role_required: "Only admins may",
  read_only_key: "The key may only read",
  plan_capacity_exceeded: "No room in the plan",
  plan_feature_required: "Not in the plan",
  agent_limit_reached: "Too many agents",
  agent_state_conflict: "Not in this status",
  precondition_failed: "Changed by another call",
  idempotency_conflict: "Key used for another call",
  not_found: "Not found",
  rate_limited: "Too many calls",
  organization_suspended: "Organization suspended",
  rehearsal_refused: "Rehearsal refused",
  internal_error: "Error of the service",
};

/** How a call ended, in words. A code that the console does not know has its own words. */
export const outcomeText = (outcome: string): string =>
  outcome === "succeeded"
    ? "Succeeded"
    : outcome === "begun"
      ? "Interrupted"
      : (refusals[outcome] ?? outcome.charAt(0).toUpperCase() + outcome.slice(1).replaceAll("_", " "));
