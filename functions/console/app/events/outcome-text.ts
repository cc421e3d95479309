/** Why calls are refused, in words. */
export const refusals: Record<string, string> = {
  validation_error: "Invalid input",
  role_required: "Only admins may",
  plan_capacity_exceeded: "No room in the plan",
  plan_feature_required: "Not in the plan",
  subscription_past_due: "Payment overdue",
  agent_state_conflict: "Not in this status",
  agent_in_use: "Agent in use",
  wake_disabled: "No schedule wakes it",
  agent_deleting: "Being deleted",
  agent_not_found: "No such agent",
  not_found: "Not found",
  version_mismatch: "Changed by another call",
  rate_limited: "Too many calls",
  volume_empty: "No data yet",
  hook_missing: "No such program",
  snapshot_not_found: "No such snapshot",
  snapshot_not_ready: "Snapshot not ready",
  snapshot_in_progress: "Another snapshot first",
  snapshot_in_use: "Snapshot in use",
  snapshot_too_large: "Snapshot too large",
  restore_in_progress: "Another restore first",
  exec_off: "Commands are off",
  rehearsal_refused: "Rehearsal refused",
  internal_error: "Error of the service",
};

/** How a call ended, in words. A code that the console does not know has its own words. */
export const outcomeText = (outcome: string): string =>
  outcome === "succeeded"
    ? "Succeeded"
    : outcome === "begun"
      ? "Begun"
      : (refusals[outcome] ?? outcome.charAt(0).toUpperCase() + outcome.slice(1).replaceAll("_", " "));
