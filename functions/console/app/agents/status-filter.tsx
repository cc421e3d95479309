import { href } from "../router";
import { formatNumber } from "../ui/format";
import { statusText } from "../ui/status";
import { type Filter, queryOf } from "./filter";

/** How many agents have each status. Each is a link to those agents. */
export function StatusFilter({ counts, total, filter }: { counts: [string, number][]; total: number; filter: Filter }) {
  const missing = filter.status !== "" && !counts.some(([status]) => status === filter.status);
  const none: [string, number][] = missing ? [[filter.status, 0]] : [];
  const all: [string, number][] = [["", total], ...counts, ...none];
  return (
    <nav class="statuses" aria-label="Agents by status">
      {all.map(([status, count]) => (
        <a
          key={status}
          href={href(["agents"], queryOf({ ...filter, status }))}
          aria-current={filter.status === status ? "true" : undefined}
        >
          {status === "" ? "All" : statusText(status)} <span class="number quiet">{formatNumber(count)}</span>
        </a>
      ))}
    </nav>
  );
}
