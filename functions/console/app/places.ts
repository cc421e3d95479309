import type { IconName } from "./ui/icons";

interface Place {
  segment: string;
  name: string;
  icon: IconName;
}

/** The pages of the console. */
export const places: Place[] = [
  { segment: "agents", name: "Agents", icon: "agents" },
  { segment: "usage", name: "Usage", icon: "usage" },
  { segment: "api-keys", name: "API keys", icon: "key" },
  { segment: "webhooks", name: "Webhooks", icon: "webhook" },
  { segment: "members", name: "Members", icon: "members" },
  { segment: "billing", name: "Billing", icon: "billing" },
  { segment: "audit-log", name: "Audit log", icon: "audit" },
];
