import assert from "node:assert/strict";
import { test } from "node:test";

import { OperationError } from "../src/index.js";
import type { Client, SecretOperation } from "../src/index.js";
import { agent, json, problem, serve, virtualTime } from "./server.js";

test("pages follow the cursor and keep the query", async (t) => {
  const { client, seen } = await serve(t, (response, n) =>
    json(response, 200, [{ id: `a${n}` }, { id: `b${n}` }], n < 3 ? { "X-Next-Cursor": `c${n}` } : {}),
  );
  const ids: string[] = [];
  for await (const { id } of client.items("/api/v1/agents", { params: { query: { status: "running" } } })) {
    ids.push(id);
  }
  assert.deepEqual(ids, ["a1", "b1", "a2", "b2", "a3", "b3"]);
  assert.deepEqual(
    seen.map((s) => s.url.split("?")[1]),
    ["status=running", "status=running&cursor=c1", "status=running&cursor=c2"],
  );
});

test("a page is read when it is needed", async (t) => {
  const { client, seen } = await serve(t, (response) => json(response, 200, [{}], { "X-Next-Cursor": "c" }));
  for await (const page of client.pages("/api/v1/api-keys")) {
    assert.equal(page.length, 1);
    break;
  }
  assert.equal(seen.length, 1);
});

test("a wait reports each version once, and returns the settled agent", async (t) => {
  const states = [agent("provisioning", "pending"), agent("provisioning", "running"), agent("running", "succeeded")];
  const { client, seen } = await serve(t, (response, n) => {
    const i = Math.floor((n - 1) / 2); // each state twice
    json(response, 200, states[i], { ETag: `"${i}"` });
  });
  const stages: (string | undefined)[] = [];
  const settled = await client.waitUntilSettled("a", {
    onChange: (a) => stages.push(a.config.provisioning_stages[0]?.status),
  });
  assert.equal(settled.status, "running");
  assert.deepEqual(stages, ["pending", "running", "succeeded"]);
  assert.equal(seen.length, 5);
});

test("a wait without reports holds its requests, and pauses as the API asks", async (t) => {
  const { client, seen, pauses } = await serve(t, (response, n) =>
    json(response, 200, agent(n < 2 ? "pending" : "error"), { "Retry-After": "3" }),
  );
  assert.equal((await client.waitUntilSettled("a")).status, "error");
  assert.deepEqual([seen[0]?.url, pauses], ["/api/v1/agents/a?wait=50", [3000]]);
});

const begun = { id: "o", agent_id: "a", status: "pending", stage: "bind" } as SecretOperation;

for (const { name, wait, ended } of [
  { name: "an agent", ended: "running", wait: (client: Client) => client.waitUntilSettled("a") },
  { name: "an operation", ended: "succeeded", wait: (client: Client) => client.waitForSecretOperations([begun]) },
]) {
  test(`a wait for ${name} bears an outage of less than 2 minutes`, async (t) => {
    const options = { ...virtualTime(t), attempts: 5 };
    let began = 0;
    const during = (minutes: number) => {
      return serve(
        t,
        (response, n) => {
          if (n === 2) {
            t.mock.timers.tick(50_000); // the API holds the request, which is no part of the outage
            began = Date.now();
          }
          if (n === 1) {
            json(response, 200, begun);
          } else if (Date.now() < began + minutes * 60_000) {
            problem(response, 503, "unavailable");
          } else {
            json(response, 200, { ...begun, status: ended });
          }
        },
        options,
      );
    };
    await wait((await during(1.8)).client);
    await assert.rejects(wait((await during(60)).client), { code: "unavailable" });
    const waited = (Date.now() - began) / 60_000;
    assert.ok(waited >= 2 && waited < 3, `waited ${waited} minutes, want 2`);
  });
}

test("a wait for an agent that the API never has shown throws the error", async (t) => {
  const { client, seen } = await serve(t, (response) => problem(response, 503, "unavailable"));
  await assert.rejects(client.waitUntilSettled("a"), { code: "unavailable" });
  assert.equal(seen.length, 5);
});

test("a wait pauses for a minute at most, whatever the API asks", async (t) => {
  const { client, pauses } = await serve(t, (response, n) =>
    json(response, 200, agent(n < 2 ? "pending" : "running"), n < 2 ? { "Retry-After": "864000" } : {}),
  );
  await client.waitUntilSettled("a");
  assert.deepEqual(pauses, [60_000]);
});

test("a wait for a deletion ends when the agent is gone, and refuses an agent that stays", async (t) => {
  const { client, seen } = await serve(t, (response, n) =>
    n < 3 ? json(response, 200, agent("deleting")) : problem(response, 404, "agent_not_found"),
  );
  await client.waitUntilDeleted("a");
  assert.equal(seen.length, 3);
  const other = await serve(t, (response) => json(response, 200, agent("running")));
  await assert.rejects(other.client.waitUntilDeleted("a"), { message: /is running, not being deleted/ });
});

test("a wait for a deletion takes no page of a proxy for the end of the agent", async (t) => {
  const { client } = await serve(t, (response, n) =>
    n < 2 ? json(response, 200, agent("deleting")) : response.writeHead(404).end("<h1>Page not found</h1>"),
  );
  await assert.rejects(client.waitUntilDeleted("a"), { name: "APIError", status: 404, code: "" });
});

test("a wait for a restart ends when the newest pod answers", async (t) => {
  const warming = { ...agent("running"), dashboard_warming: true };
  const states = [agent("provisioning"), warming, warming, { ...warming, dashboard_warming: false }];
  const { client, seen, pauses } = await serve(t, (response, n) => json(response, 200, states[n - 1]));
  assert.equal((await client.waitUntilReady("a")).dashboard_warming, false);
  assert.equal(seen.length, 4);
  assert.deepEqual(pauses, [1000, 1000, 1000]);
  const stopped = await serve(t, (response) => json(response, 200, { ...warming, status: "stopped" }));
  assert.equal((await stopped.client.waitUntilReady("a")).status, "stopped");
});

test("a signal ends a wait", async (t) => {
  const controller = new AbortController();
  const { client } = await serve(t, (response, n) => {
    json(response, 200, agent("pending"));
    if (n === 3) {
      controller.abort(new Error("enough"));
    }
  });
  await assert.rejects(client.waitUntilSettled("a", { signal: controller.signal }), { message: "enough" });
});

test("operations are waited for until none can go on", async (t) => {
  const operation = (id: string, status: string, code: string | null = null) =>
    ({ id, agent_id: "a", key: id, status, error_code: code, stage: "rollout", updated_at: status }) as SecretOperation;
  const answers: Record<string, SecretOperation[]> = {
    x: [operation("x", "pending"), operation("x", "running"), operation("x", "succeeded")],
    y: [operation("y", "pending", "agent_not_running")],
    z: [operation("z", "failed", "rollout_timeout")],
  };
  const { client } = await serve(t, (response, _, { url }) => {
    json(response, 200, answers[url.slice(-1)]?.shift());
  });
  const changes: string[] = [];
  const ended = await client.waitForSecretOperations([operation("x", "pending"), operation("y", "running")], {
    onChange: (o) => changes.push(`${o.id} ${o.status}`),
  });
  assert.deepEqual(changes, ["x pending", "x running", "x succeeded", "y running", "y pending"]);
  assert.deepEqual(
    ended.map((o) => o.status),
    ["succeeded", "pending"],
  );
  await assert.rejects(client.waitForSecretOperations([operation("z", "running")]), (error) => {
    assert.ok(error instanceof OperationError);
    assert.equal(error.operation.error_code, "rollout_timeout");
    return true;
  });
});

test("a status of a later release is not the end of an operation", async (t) => {
  const operation = (status: string, updated_at: string) =>
    ({ id: "x", agent_id: "a", key: "x", status, error_code: null, stage: "rollout", updated_at }) as SecretOperation;
  const { client } = await serve(t, (response, n) =>
    json(response, 200, n < 2 ? operation("verifying", "1") : operation("succeeded", "2")),
  );
  const ended = await client.waitForSecretOperations([operation("running", "0")]);
  assert.deepEqual(
    ended.map((o) => o.status),
    ["succeeded"],
  );
});

test("a value that was not stored in time is not waited for", async (t) => {
  const storing = {
    id: "x", agent_id: "a", key: "TOKEN", status: "pending", error_code: null, stage: "store", updated_at: "1",
  } as SecretOperation;
  const { client, pauses } = await serve(t, (response) => json(response, 200, storing));
  await assert.rejects(client.waitForSecretOperations([storing]), (error) => {
    assert.ok(error instanceof OperationError);
    assert.match(error.message, /did not store the value of TOKEN in time. Set it again/);
    return true;
  });
  const waited = pauses.reduce((sum, pause) => sum + pause, 0);
  assert.ok(waited > 30_000 && waited < 40_000, `waited ${waited} ms`);
});
