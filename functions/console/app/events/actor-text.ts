import type { AuditActor } from "@agents.example/client/schema";

const short = (id: string): string => (id.length > 12 ? `${id.slice(0, 8)}…` : id);

/** Who made a call. Names are those of API keys, by their ID. */
export function actorText(actor: AuditActor, names: Map<string, string>): string {
  const name = names.get(actor.id);
  switch (actor.type) {
    case "api_key":
      return name === undefined ? `API key ${actor.key_prefix ?? actor.id.slice(0, 8)}…` : `API key “${name}”`;
    case "operator":
      return `Operator ${actor.email ?? actor.id}`;
    case "system":
      return "The service";
    case "agent":
      return "The agent itself";
    default:
      return actor.email ?? `User ${short(actor.id)}`;
  }
}
