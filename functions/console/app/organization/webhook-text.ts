import type { Webhook, WebhookAttempt, WebhookDelivery } from "@agents.example/client/schema";
import { eventTitle } from "../events/event-text";
import type { Appearance } from "../ui/badge";
import { formatDuration } from "../ui/time";

/** Whether a webhook works, in words. */
export function stateOf(hook: Webhook): Appearance {
  switch (true) {
    case hook.status === "disabled" && hook.disabled_reason === "failing":
      return { tone: "bad", icon: "error", text: "Disabled: it failed for three days" };
    case hook.status === "disabled":
      return { tone: "idle", icon: "paused", text: "Disabled" };
    case hook.failing_since !== null:
      return { tone: "warn", icon: "error", text: "Failing" };
    case hook.status === "enabled":
      return { tone: "good", icon: "check", text: "Enabled" };
    default:
      return { tone: "idle", icon: "info", text: hook.status };
  }
}

const maxNamed = 3;

/** Which events a webhook receives. */
export function typesText({ types }: Webhook): string {
  const named = types.slice(0, maxNamed).map(eventTitle).join(", ");
  const more = types.length - maxNamed;
  return types.length === 0 ? "All events" : more > 0 ? `${named} and ${more} more` : named;
}

const deliveryStates: Record<string, Appearance> = {
  pending: { tone: "busy", icon: "waiting", text: "Waiting" },
  succeeded: { tone: "good", icon: "check", text: "Delivered" },
  failed: { tone: "bad", icon: "error", text: "Failed" },
};

/** How a delivery ended, or that it has not. */
export const deliveryState = ({ status, attempts }: WebhookDelivery): Appearance =>
  status === "pending" && attempts.length > 0
    ? { tone: "warn", icon: "waiting", text: "Tried again later" }
    : (deliveryStates[status] ?? { tone: "idle", icon: "info", text: status });

const reasons: Record<string, string> = {
  url: "the address is not allowed",
  dns: "the host has no address",
  not_public: "the host’s address is not public",
  connect: "it did not accept the connection",
  tls: "it has no valid certificate",
  timeout: "it did not answer in time",
  event_expired: "the event is no longer kept",
};

/** What the receiver did with an attempt, such as "503 in 12 ms". */
export function attemptText({ http_status: status, latency_ms: latency, error }: WebhookAttempt): string {
  const took = formatDuration(latency);
  return status === null ? `${reasons[error ?? ""] ?? error ?? "no answer"}, after ${took}` : `${status} in ${took}`;
}
