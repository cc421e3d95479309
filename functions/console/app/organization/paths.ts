// Where the service has what the pages of the organization show.

export const organizationPath = "/api/v1/organizations/current";
export const membersPath = `${organizationPath}/members`;
export const auditPath = `${organizationPath}/audit-log`;
export const keysPath = "/api/v1/api-keys";
export const webhooksPath = "/api/v1/webhooks";
export const webhookPath = (id: string): string => `${webhooksPath}/${encodeURIComponent(id)}`;
export const plansPath = "/api/v1/billing/plans";
export const subscriptionPath = "/api/v1/billing/subscription";
