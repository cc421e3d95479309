import type { Plan, Organization } from "@agents.example/client/schema";
import { useId } from "preact/hooks";
import { Icon } from "../ui/icons";
import { formatBytes, formatCores, formatNumber, formatPrice, planName, plural } from "../ui/format";
import { type Room, roomFor, shareOf } from "./capacity";

/** The choice of a new agent's size, which a plan names. Sizes that do not fit are there with the reason. */
export function PlanChoice(props: {
  plans: Plan[];
  organization: Organization;
  value: string;
  /** How large the volume must be. */
  needs: number;
  onChange: (plan: string) => void;
  wrong: string[];
}) {
  const { plans, organization, value, needs, onChange, wrong } = props;
  const name = useId();
  return (
    <fieldset class="field">
      <legend class="label">Size</legend>
      <span class="hint">{leftOf(plans, organization)} An agent can grow later, and never shrinks.</span>
      <div class="choices">
        {plans.map((plan) => (
          <PlanCard
            key={plan.id}
            plan={plan}
            name={name}
            chosen={plan.id === value}
            room={plan.agent.storage_bytes < needs ? tooSmall(needs) : roomFor(plan, plans, organization)}
            share={
              plans.indexOf(plan) <= plans.findIndex(({ id }) => id === organization.plan)
                ? shareOf(plan, organization)
                : undefined
            }
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

const tooSmall = (needs: number): Room => ({ more: 0, reason: `Needs ${formatBytes(needs)} of storage.`, limit: "" });

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
  /** What it takes of the organization's plan; undefined if a larger plan must be paid for. */
  share: string | undefined;
  onChange: () => void;
}) {
  const { plan, name, chosen, room, share, onChange } = props;
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
        aria-describedby={`${id}-size ${id}-share ${id}-room`}
      />
      <span class="choice-name">
        <strong id={`${id}-name`}>{plan.name}</strong>
        <span class="small quiet">{share === undefined ? formatPrice(plan.price_usd_month) : "included"}</span>
      </span>
      <span class="small" id={`${id}-size`}>
        {formatCores(cpu_cores)}, {formatBytes(memory_bytes)} memory, {formatBytes(storage_bytes)} storage
      </span>
      {share === undefined ? null : (
        <span class="small" id={`${id}-share`}>
          {share}
        </span>
      )}
      <span class="small quiet" id={`${id}-room`}>
        {room.reason ?? `Room for ${formatNumber(room.more)} more`}
      </span>
    </label>
  );
}
