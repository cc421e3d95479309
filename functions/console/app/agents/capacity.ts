import type { Plan, Organization } from "@agents.example/client/schema";
import { formatBytes, formatCores, formatNumber } from "../ui/format";

/** Whether an agent of a plan can be created now. */
export interface Room {
  /** How many more agents of the plan fit. */
  more: number;
  /** Why none can be created; undefined if one can. */
  reason: string | undefined;
  /** Which limit of the organization's plan is in the way, as the service names it. */
  limit: string;
}

interface Need {
  name: string;
  left: number;
  limit: number;
  each: number;
  format: (value: number) => string;
}

/** How much room an organization has for agents of a plan. The plans come smallest first. */
export function roomFor(plan: Plan, plans: Plan[], organization: Organization): Room {
  const own = plans.findIndex(({ id }) => id === organization.plan);
  if (plans.indexOf(plan) > own) {
    return { more: 0, reason: `Needs the ${plan.name} plan.`, limit: "resource_plan" };
  }
  const { limits, usage } = organization;
  const needs: Need[] = [
    { name: "agents", left: limits.agents - usage.agents, limit: limits.agents, each: 1, format: formatAgents },
    {
      name: "cpu_cores",
      left: limits.cpu_cores - usage.cpu_cores,
      limit: limits.cpu_cores,
      each: plan.agent.cpu_cores,
      format: formatCores,
    },
    {
      name: "memory_bytes",
      left: limits.memory_bytes - usage.memory_bytes,
      limit: limits.memory_bytes,
      each: plan.agent.memory_bytes,
      format: (value) => `${formatBytes(value)} of memory`,
    },
    {
      name: "storage_bytes",
      left: limits.storage_bytes - usage.storage_bytes,
      limit: limits.storage_bytes,
      each: plan.agent.storage_bytes,
      format: (value) => `${formatBytes(value)} of storage`,
    },
  ];
  const short = needs.find(({ left, each }) => left < each);
  if (short !== undefined) {
    const { name, each, left, limit, format } = short;
    const reason =
      name === "agents"
        ? `All ${format(limit)} of your plan are in use.`
        : `Needs ${format(each)}. You have ${format(Math.max(0, left))} left of ${format(limit)}.`;
    return { more: 0, reason, limit: name };
  }
  return { more: Math.floor(Math.min(...needs.map(({ left, each }) => left / each))), reason: undefined, limit: "" };
}

const formatAgents = (value: number): string => `${formatNumber(value)} ${value === 1 ? "agent" : "agents"}`;

/** The smallest plan, or the smallest from one on, of which an agent fits. Agents can grow, and never shrink. */
export function smallestPlan(plans: Plan[], organization: Organization, from: string | null = null): string {
  const first = Math.max(0, plans.findIndex(({ id }) => id === from));
  return plans.slice(first).find((plan) => roomFor(plan, plans, organization).reason === undefined)?.id ?? "";
}

/** What an agent of a plan takes of what the organization pays for, such as "5% of your CPU". */
export function shareOf({ agent }: Plan, { limits }: Organization): string {
  const part = (each: number, limit: number) => share.format(each / limit);
  return (
    `Takes ${part(agent.cpu_cores, limits.cpu_cores)} of your CPU, ` +
    `${part(agent.memory_bytes, limits.memory_bytes)} of memory, ` +
    `${part(agent.storage_bytes, limits.storage_bytes)} of storage.`
  );
}

const share = new Intl.NumberFormat(undefined, { style: "percent", maximumSignificantDigits: 2 });

/** The limit that keeps even the smallest agent from being created; undefined if an agent fits. */
export function fullLimit(plans: Plan[], organization: Organization): string | undefined {
  const smallest = plans[0];
  const full = smallest !== undefined && smallestPlan(plans, organization) === "";
  return full ? roomFor(smallest, plans, organization).limit : undefined;
}

/** Why the organization can create no agent at all, in view of its payments; undefined if it can. */
export function blockOf(organization: Organization): string | undefined {
  switch (organization.status) {
    case "past_due":
      return "A payment is overdue. Agents can be created again once it succeeds.";
    case "suspended":
      return "The organization is suspended, so no agent can be created or started. Contact support.";
    default:
      return undefined;
  }
}
