import assert from "node:assert/strict";
import { test } from "node:test";

import { json, problem, serve } from "./server.js";

const params = { path: { agent_id: "a" } };
const would = { status: "stopped", restarts: false, downtime_seconds_estimate: null, monthly_price_change_usd: 0 };

test("a rehearsal asks the API, and returns what the call would do", async (t) => {
  const { client, seen } = await serve(t, (response, n) => {
    return n === 1 ? problem(response, 503, "store_unavailable") : json(response, 200, { would, agent: { id: "a" } });
  });
  const rehearsal = await client.POST("/api/v1/agents/{agent_id}/stop", { params, dryRun: true });
  assert.equal(rehearsal.would.status, "stopped");
  assert.equal(rehearsal.agent.id, "a");
  const created = await client.POST("/api/v1/agents", { body: { name: "A", resource_plan: "hobby" }, dryRun: true });
  assert.equal(created.would.restarts, false);
  assert.deepEqual(
    seen.map(({ method, url, body }) => [method, url, body]),
    [
      ["POST", "/api/v1/agents/a/stop?dry_run=true", ""],
      ["POST", "/api/v1/agents/a/stop?dry_run=true", ""],
      ["POST", "/api/v1/agents?dry_run=true", '{"name":"A","resource_plan":"hobby"}'],
    ],
  );
});

test("a rehearsal fails as the call would", async (t) => {
  const { client } = await serve(t, (response) => problem(response, 409, "agent_state_conflict"));
  await assert.rejects(client.POST("/api/v1/agents/{agent_id}/stop", { params, dryRun: true }), {
    code: "agent_state_conflict",
  });
});

test("a call that cannot be rehearsed is not sent", async (t) => {
  const { client, seen } = await serve(t, (response) => json(response, 200, {}));
  const untyped = client as unknown as Record<"GET" | "POST" | "DELETE", (path: string, init: object) => Promise<unknown>>;
  for (const call of [
    untyped.POST("/api/v1/agents/{agent_id}/credentials/reveal", { params, dryRun: true }),
    untyped.POST("/api/v1/agents/{agent_id}/exec", { params, body: { command: ["rm", "/data/x"] }, dryRun: true }),
    untyped.DELETE("/api/v1/agents/{agent_id}/files", { params, dryRun: true }),
    untyped.DELETE("/api/v1/api-keys/{key_id}", { params: { path: { key_id: "k" } }, dryRun: true }),
    untyped.GET("/api/v1/agents", { dryRun: true }),
  ]) {
    await assert.rejects(call, { name: "TypeError", message: /cannot be rehearsed/ });
  }
  assert.equal(seen.length, 0);
});
