import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Icon } from "../ui/icons";

/** The part of a limit from which on the console warns. */
const warnFrom = 0.8;

export interface MeterProps {
  label: string;
  used: number;
  limit: number;
  /** A figure with its unit. */
  format: (value: number) => string;
  /** What to do when nothing is left. */
  whenFull: ComponentChildren;
}

/** "1 of 5 agents" for 1 agent of 5 agents, and both units where they differ. */
function amountOf(used: string, limit: string): string {
  const unitOf = (amount: string) => amount.split(" ")[1]?.replace(/s$/, "");
  return unitOf(used) === unitOf(limit) ? `${used.split(" ")[0]} of ${limit}` : `${used} of ${limit}`;
}

/** How much of a limit is used. */
export function Meter({ label, used, limit, format, whenFull }: MeterProps) {
  const id = useId();
  const part = limit > 0 ? used / limit : used > 0 ? 1 : 0;
  const full = used >= limit;
  const over = used > limit;
  const tone = full ? "tone-bad" : part >= warnFrom ? "tone-warn" : "";
  const state = over ? "Over the limit" : full ? "Full" : part >= warnFrom ? "Almost full" : "";
  const text = `${amountOf(format(used), format(limit))} used`;
  return (
    <div class={`meter ${tone}`}>
      <div class="line">
        <strong id={id}>{label}</strong>
        {state === "" ? null : (
          <span class={`badge ${tone}`}>
            <Icon name={full ? "error" : "info"} />
            {state}
          </span>
        )}
      </div>
      <div
        class="track"
        role="meter"
        aria-labelledby={id}
        aria-valuemin={0}
        aria-valuemax={Math.max(limit, used)}
        aria-valuenow={used}
        aria-valuetext={state === "" ? text : `${text}. ${state}`}
      >
        <div class="fill" ref={(element) => element?.style.setProperty("--part", `${Math.min(part, 1) * 100}%`)} />
      </div>
      <span class="small quiet number">
        {text}
        {over ? "" : `, ${format(limit - used)} left`}
      </span>
      {full ? <span class="small">{whenFull}</span> : null}
    </div>
  );
}
