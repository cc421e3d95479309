// This file is only compiled. A line after @ts-expect-error must not compile.
import { createClient } from "../src/index.js";
import type { Agent, APIKey, Rehearsal, SecretOperation } from "../src/index.js";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const is = <_ extends true>() => {};

export async function types() {
  const client = createClient({ baseURL: "https://api.example.com", token: async () => "t" });
  const params = { path: { agent_id: "a" } };

  const agent = await client.GET("/api/v1/agents/{agent_id}", { params });
  is<Equal<typeof agent, Agent>>();
  const agents = await client.GET("/api/v1/agents");
  is<Equal<typeof agents, Agent[]>>();
  const none = await client.DELETE("/api/v1/api-keys/{key_id}", { params: { path: { key_id: "k" } } });
  is<Equal<typeof none, undefined>>();
  for await (const key of client.items("/api/v1/api-keys", { params: { query: { limit: 5 } } })) {
    is<Equal<typeof key, APIKey>>();
  }
  for await (const page of client.pages("/api/v1/agents/{agent_id}/secret-operations", { params })) {
    is<Equal<typeof page, SecretOperation[]>>();
  }
  const maybe: AbortSignal | undefined = undefined;
  await client.POST("/api/v1/agents", { body: { name: "A", resource_plan: "starter" }, signal: maybe });

  const body = { name: "A", resource_plan: "starter" } as const;
  const created = await client.POST("/api/v1/agents", { body });
  is<Equal<typeof created, Agent>>();
  const rehearsal = await client.POST("/api/v1/agents", { body, dryRun: true });
  is<Equal<typeof rehearsal, Rehearsal>>();
  const stop = await client.POST("/api/v1/agents/{agent_id}/stop", { params, dryRun: true });
  is<Equal<typeof stop, Rehearsal>>();
  const removal = await client.DELETE("/api/v1/agents/{agent_id}/secrets/{key}", {
    params: { path: { agent_id: "a", key: "K" } },
    dryRun: true,
  });
  is<Equal<typeof removal, Rehearsal>>();
  const changed = await client.PATCH("/api/v1/agents/{agent_id}", { params, body: { name: "B" } });
  is<Equal<typeof changed, Agent>>();

  // @ts-expect-error: an operation that cannot be rehearsed
  await client.POST("/api/v1/api-keys", { body: { name: "K" }, dryRun: true });
  // @ts-expect-error: an operation that cannot be rehearsed
  await client.POST("/api/v1/agents/{agent_id}/credentials/reveal", { params, dryRun: true });
  // @ts-expect-error: a read
  await client.GET("/api/v1/agents", { dryRun: true });
  // @ts-expect-error: the parameter changes the type of the answer, so it is an option
  await client.POST("/api/v1/agents", { body, params: { query: { dry_run: true } } });
  // @ts-expect-error: the body of a rehearsal is missing
  await client.POST("/api/v1/agents", { dryRun: true });
  // @ts-expect-error: a path that does not exist
  await client.GET("/api/v1/agent");
  // @ts-expect-error: a method that the path does not have
  await client.PUT("/api/v1/agents");
  // @ts-expect-error: a required parameter is missing
  await client.GET("/api/v1/agents/{agent_id}");
  // @ts-expect-error: the wrong name of a parameter
  await client.GET("/api/v1/agents/{agent_id}", { params: { path: { id: "a" } } });
  // @ts-expect-error: an unknown query parameter
  await client.GET("/api/v1/agents", { params: { query: { page: 1 } } });
  // @ts-expect-error: the body is missing
  await client.POST("/api/v1/agents");
  // @ts-expect-error: an operation without a body
  await client.POST("/api/v1/agents/{agent_id}/stop", { params, body: {} });
  const path = { agent_id: "a" };
  await client.POST("/api/v1/agents/{agent_id}/migrate-sandbox", { params });
  await client.POST("/api/v1/agents/{agent_id}/migrate-sandbox", { params, body: {} });
  const elsewhere = { path, query: { page: 1 } };
  // @ts-expect-error: an operation without query parameters
  await client.POST("/api/v1/agents/{agent_id}/credentials/reveal", { params: elsewhere });
  // @ts-expect-error: a plan that does not exist
  await client.POST("/api/v1/agents", { body: { name: "A", resource_plan: "huge" } });
  // @ts-expect-error: an unknown option
  await client.GET("/api/v1/agents", { retries: 3 });
  // @ts-expect-error: a list that does not come in pages
  client.pages("/api/v1/billing/plans");
  // @ts-expect-error: a log is read with logs()
  await client.GET("/api/v1/agents/{agent_id}/logs", { params });
  // @ts-expect-error: a status that does not exist
  agent.status === "started";
  // @ts-expect-error: the token is missing
  createClient({ baseURL: "https://api.example.com" });
}
