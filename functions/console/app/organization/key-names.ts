import type { APIKey } from "@agents.example/client/schema";
import { useMemo } from "preact/hooks";
import { useLive } from "../api/live";

const every = 60_000;

/** The names of the organization's API keys, by their ID. Only admins may read them. */
export function useKeyNames(): Map<string, string> {
  const { data } = useLive<APIKey[]>("/api/v1/api-keys?limit=100", { every, quick: every });
  return useMemo(() => new Map((data ?? []).map(({ id, name }) => [id, name])), [data]);
}
