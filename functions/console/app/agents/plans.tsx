import type { Plan, Organization } from "@agents.example/client/schema";
import { useId } from "preact/hooks";
import { Icon } from "../ui/icons";
import { formatBytes, formatCores, formatNumber, formatPrice, planName, plural } from "../ui/format";
import { type Room, roomFor } from "./capacity";

/** The choice of a new agent's plan. Plans that do not fit are there with the reason. */
export function PlanChoice(props: {
  plans: Plan[];
  organization: Organization;
  value: string;
  onChange: (plan: string) => void;
  wrong: string[];
}) {
  const { plans, organization, value, onChange, wrong } = props;
  const name = useId();
  return (
    <fieldset class="field">
      <legend class="label">Plan</legend>
      <span class="hint">{leftOf(plans, organization)}</span>
      <div class="choices">
        {plans.map((plan) => (
          <PlanCard
            key={plan.id}
            plan={plan}
            name={name}
            chosen={plan.id === value}
            room={roomFor(plan, plans, organization)}
            included={plans.indexOf(plan) <= plans.findIndex(({ id }) => id === organization.plan)}
            onChange={() => onChange(plan.id)}
          />
        ))}
      </div>
      {wrong.map((sentence) => (
        <span class="wrong" key={sentence}>
          <Icon name="error" />
          {sentence}
        </span>
      ))}
    </fieldset>
  );
}

/** What is left of what the organization pays for. */
function leftOf(plans: Plan[], { plan, limits, usage }: Organization): string {
  const own = plans.find(({ id }) => id === plan);
  const price = own === undefined ? "" : ` (${formatPrice(own.price_usd_month)})`;
  const left = (limit: number, used: number) => Math.max(0, limit - used);
  return (
    `Your ${planName(plan)} plan${price} has room for ${formatNumber(left(limits.agents, usage.agents))} of ` +
    `${plural(limits.agents, "agent")}, ${formatNumber(left(limits.cpu_cores, usage.cpu_cores))} of ` +
    `${formatCores(limits.cpu_cores)} and ${formatBytes(left(limits.memory_bytes, usage.memory_bytes))} of ` +
    `${formatBytes(limits.memory_bytes)} memory.`
  );
}

function PlanCard(props: {
  plan: Plan;
  name: string;
  chosen: boolean;
  room: Room;
  included: boolean;
  onChange: () => void;
}) {
  const { plan, name, chosen, room, included, onChange } = props;
  const id = useId();
  const { cpu_cores, memory_bytes, storage_bytes } = plan.agent;
  return (
    <label class="choice" data-off={room.reason === undefined ? undefined : ""}>
      <input
        type="radio"
        name={name}
        checked={chosen}
        disabled={room.reason !== undefined}
        onChange={onChange}
        aria-labelledby={`${id}-name`}
        aria-describedby={`${id}-size ${id}-room`}
      />
      <span class="choice-name">
        <strong id={`${id}-name`}>{plan.name}</strong>
        <span class="small quiet">{included ? "included" : formatPrice(plan.price_usd_month)}</span>
      </span>
      <span class="small" id={`${id}-size`}>
        {formatCores(cpu_cores)}, {formatBytes(memory_bytes)} memory, {formatBytes(storage_bytes)} storage
      </span>
      <span class="small quiet" id={`${id}-room`}>
        {room.reason ?? `Room for ${formatNumber(room.more)} more`}
      </span>
    </label>
  );
}
