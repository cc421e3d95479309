import assert from "node:assert/strict";
import { env } from "node:process";
import { test } from "node:test";

import { APIError, createClient } from "../src/index.js";

const { AGENTS_BASE_URL: baseURL = "", AGENTS_API_KEY: token = "" } = env;
const options = { skip: baseURL === "" && "AGENTS_BASE_URL is not set", timeout: 10 * 60_000 };

test("an agent is created, gets a secret, is followed, listed and deleted", options, async (t) => {
  const client = createClient({ baseURL, token, userAgent: "story/1.0" });

  await t.test("an invalid request has all its violations", async () => {
    const body = { name: "", resource_plan: "starter", env_vars: { PORT: "1" } } as const;
    await assert.rejects(client.POST("/api/v1/agents", { body }), (error) => {
      assert.ok(error instanceof APIError);
      assert.equal(error.status, 422);
      assert.ok(error.violations.length >= 2, error.message);
      assert.notEqual(error.requestId, "");
      return true;
    });
  });

  const name = `TypeScript ${crypto.randomUUID()}`;
  let cursor = "";
  await client.GET("/api/v1/events", { onResponse: ({ headers }) => (cursor = headers.get("X-Event-Cursor") ?? "") });
  const created = await client.POST("/api/v1/agents", { body: { name, resource_plan: "hobby" } });
  const id = created.id;
  const params = { path: { agent_id: id } };

  await t.test("a wait shows the stages", async () => {
    const seen = new Set<string>();
    const agent = await client.waitUntilSettled(id, {
      onChange: ({ config }) => config.provisioning_stages.forEach((s) => seen.add(`${s.name} ${s.status}`)),
    });
    assert.equal(agent.status, "running", agent.error_message ?? "");
    assert.ok(seen.has("ready succeeded"), [...seen].join(", "));
  });

  await t.test("the same idempotency key gets the same answer", async () => {
    const header = { "Idempotency-Key": crypto.randomUUID() };
    const put = () =>
      client.PUT("/api/v1/agents/{agent_id}/secrets", {
        params: { ...params, header },
        body: { secrets: { GREETING_TOKEN: "hello" } },
      });
    const [first, second] = [await put(), await put()];
    assert.deepEqual(second.operations[0]?.id, first.operations[0]?.id);
    const stages: string[] = [];
    const [operation] = await client.waitForSecretOperations(first.operations, {
      onChange: (o) => stages.push(o.stage),
    });
    assert.equal(operation?.status, "succeeded");
    assert.equal(stages.at(-1), "complete");
    const secrets = await client.GET("/api/v1/agents/{agent_id}/secrets", { params });
    assert.deepEqual(
      secrets.map((s) => [s.key, s.in_sync]),
      [["GREETING_TOKEN", true]],
    );
  });

  await t.test("a file is written and read", async () => {
    await client.putFile(id, "/data/hello.txt", Buffer.from("\0hello"));
    const parts: Uint8Array[] = [];
    for await (const part of client.getFile(id, "/data/hello.txt")) {
      parts.push(part);
    }
    assert.equal(Buffer.concat(parts).toString(), "\0hello");
  });

  await t.test("a log is read and followed", async () => {
    const read: string[] = [];
    for await (const line of client.logs(id)) {
      read.push(line.message);
    }
    assert.ok(read.length > 0);
    let last = "";
    for await (const line of client.followLogs(id, { tail: read.length, onEvent: (event) => (last = event) })) {
      assert.equal(line.stream, "combined");
      break;
    }
    assert.match(last, /^[0-9a-f]{16}-/);
  });

  await t.test("a list has the agent, in pages of one", async () => {
    const found: string[] = [];
    for await (const agent of client.items("/api/v1/agents", { params: { query: { limit: 1 } } })) {
      found.push(agent.id);
    }
    assert.ok(found.includes(id));
    assert.equal(new Set(found).size, found.length);
  });

  await t.test("a rehearsal changes nothing", async () => {
    const { would } = await client.POST("/api/v1/agents/{agent_id}/stop", { params, dryRun: true });
    assert.equal(would.status, "stopped");
    const agent = await client.GET("/api/v1/agents/{agent_id}", { params });
    assert.equal(agent.status, "running");
  });

  await t.test("a change of another version is refused", async () => {
    let etag: string | null = null;
    const onResponse = (response: Response) => (etag = response.headers.get("ETag"));
    await client.GET("/api/v1/agents/{agent_id}", { params, onResponse });
    assert.notEqual(etag, null);
    const header = { "If-Match": '"another"' };
    await assert.rejects(
      client.PATCH("/api/v1/agents/{agent_id}", { params: { ...params, header }, body: { name: "B" } }),
      { status: 412 },
    );
  });

  await t.test("a deletion is waited for", async () => {
    await client.DELETE("/api/v1/agents/{agent_id}", { params });
    await client.waitUntilDeleted(id);
    await assert.rejects(client.GET("/api/v1/agents/{agent_id}", { params }), { status: 404, code: "agent_not_found" });
  });

  await t.test("the events tell its life in order", async () => {
    const types: string[] = [];
    for await (const { type } of client.followEvents({ cursor, agent_id: id })) {
      types.push(type);
      if (type === "agent.deleted") {
        break;
      }
    }
    const want = ["agent.created", "agent.running", "agent.deleting", "agent.deleted"];
    assert.deepEqual(
      types.filter((type) => want.includes(type)),
      want,
    );
  });

  await t.test("the audit log has the calls", async () => {
    const actions: string[] = [];
    for await (const entry of client.exportAuditLog()) {
      if (entry.target.id === id) {
        actions.push(entry.action);
      }
    }
    assert.ok(actions.length >= 3, actions.join(", "));
  });
});
