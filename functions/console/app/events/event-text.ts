import type { EventType } from "@agents.example/client/schema";

/** What each type of event is called. A type that the console does not know has its own name. */
const titles: Record<string, string> = {
  "agent.created": "Agent created",
  "agent.pending": "Start failed, tried again",
  "agent.provisioning": "Start began",
  "agent.running": "Agent runs",
  "agent.paused": "Agent paused",
  "agent.asleep": "Agent fell asleep",
  "agent.woken": "Agent woke",
  "agent.stopped": "Agent stopped",
  "agent.error": "Agent failed",
  "agent.recovered": "Agent recovered",
  "agent.deleting": "Deletion requested",
  "agent.deleted": "Agent deleted",
  "agent.updated": "Agent changed",
  "agent.stage_changed": "Stage changed",
  "agent.image_updated": "Version changed",
  "agent.image_reverted": "Update undone",
  "agent.restored": "Agent restored",
  "agent.moved": "Agent moved to another cluster",
  "agent.move_failed": "Agent stayed in its cluster",
  "snapshot.ready": "Snapshot ready",
  "snapshot.failed": "Snapshot failed",
  "snapshot.deleted": "Snapshot gone",
  "schedule.called": "Schedule called the agent",
  "egress.refused": "Host refused",
  "secret_operation.stored": "Secret stored",
  "secret_operation.succeeded": "Secret changed",
  "secret_operation.failed": "Change of a secret failed",
  "secret_operation.superseded": "Change of a secret replaced",
  "secret_operation.canceled": "Change of a secret canceled",
  "credentials.rotated": "Credentials rotated",
  "api_key.created": "API key created",
  "api_key.revoked": "API key revoked",
  "organization.active": "Organization active",
  "organization.past_due": "Payment overdue",
  "organization.plan_changed": "Plan changed",
  "organization.suspended": "Organization suspended",
  "webhook.disabled": "Webhook disabled",
  "webhook.test": "Test event",
};

export const eventTitle = (type: EventType): string => titles[type] ?? type;

/** The types that a webhook can be limited to. A test event is sent to any webhook. */
export const eventTypes: EventType[] = Object.keys(titles).filter((type) => type !== "webhook.test");
