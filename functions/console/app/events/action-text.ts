/** What a call did, by the name of its operation. */
export const actionNames: Record<string, string> = {
  CreateAgent: "Agent created",
  UpdateAgent: "Agent changed",
  DeleteAgent: "Agent deleted",
  StartAgent: "Agent started",
  StopAgent: "Agent stopped",
  RestartAgent: "Agent restarted",
  PauseAgent: "Agent paused",
  ResumeAgent: "Agent resumed",
  SleepAgent: "Agent put to sleep",
  WakeAgentAt: "Time to wake an agent set",
  MigrateAgentSandbox: "Sandbox changed",
  TakeSnapshot: "Snapshot asked for",
  DeleteSnapshot: "Snapshot deleted",
  RestoreAgent: "Restore begun",
  ExportSnapshot: "Snapshot exported",
  PutSecrets: "Secrets changed",
  DeleteSecret: "Secret removed",
  ReconcileSecretOperation: "Change of a secret retried",
  RevealCredentials: "Credentials revealed",
  RotateCredentials: "Credentials rotated",
  ExecInAgent: "Command run in a container",
  OpenAgentTerminal: "Terminal opened",
  CloseAgentTerminal: "Terminal closed",
  PutAgentFiles: "Files of a container written",
  DeleteAgentFiles: "Files of a container deleted",
  CreateAPIKey: "API key created",
  RevokeAPIKey: "API key revoked",
  SetMember: "Role of a member set",
  RemoveMember: "Member removed",
  CreateWebhook: "Webhook created",
  UpdateWebhook: "Webhook changed",
  DeleteWebhook: "Webhook deleted",
  RotateWebhookSecret: "Secret of a webhook rotated",
  TestWebhook: "Test event sent",
  RedeliverWebhookDelivery: "Delivery repeated",
  UpdateCurrentOrganization: "Organization changed",
  CreateCheckoutSession: "Plan bought or changed",
  CreatePortalSession: "Billing portal opened",
};

/** An operation in words. One that the console does not know is its name: "RunReport" is "Run report". */
export function actionText(action: string): string {
  const words = action.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z]/g) ?? [action];
  const lower = words.map((word, i) => (i === 0 || /^[A-Z]{2,}$/.test(word) ? word : word.toLowerCase()));
  return actionNames[action] ?? lower.join(" ");
}
