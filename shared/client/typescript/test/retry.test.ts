import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { inspect } from "node:util";

import { APIError, ConnectionError, createClient } from "../src/index.js";
import { json, problem, serve } from "./server.js";
import type { Seen } from "./server.js";

const body = { name: "A", resource_plan: "starter" } as const;

for (const status of [408, 429, 502, 503, 504]) {
  test(`a call is repeated after ${status}, with the same idempotency key and body`, async (t) => {
    const { client, seen } = await serve(t, (response, n) =>
      n < 3 ? problem(response, status, "later") : json(response, 201, { id: "a" }),
    );
    assert.equal((await client.POST("/api/v1/agents", { body })).id, "a");
    assert.equal(seen.length, 3);
    assert.match(String(seen[0]?.headers["idempotency-key"]), /^[0-9a-f-]{36}$/);
    assert.equal(new Set(seen.map((s) => s.headers["idempotency-key"])).size, 1);
    assert.deepEqual(new Set(seen.map((s) => s.body)), new Set([JSON.stringify(body)]));
  });
}

test("a call is repeated while the first one with its key still runs", async (t) => {
  const { client, seen, pauses } = await serve(t, (response, n) =>
    n < 2 ? problem(response, 409, "idempotency_in_progress", { "Retry-After": "2" }) : json(response, 201, {}),
  );
  await client.POST("/api/v1/agents", { body });
  assert.equal(seen.length, 2);
  assert.ok(Number(pauses[0]) >= 2000 && Number(pauses[0]) <= 2500, `paused ${pauses[0]}, want 2000 to 2500`);
});

for (const [status, code] of [
  [400, "bad_request"],
  [409, "agent_state_conflict"],
  [500, "internal_error"],
] as const) {
  test(`a call is not repeated after ${status} ${code}`, async (t) => {
    const { client, seen } = await serve(t, (response) => problem(response, status, code));
    await assert.rejects(client.POST("/api/v1/agents", { body }), { name: "APIError", status, code });
    assert.equal(seen.length, 1);
  });
}

test("the connection may break before, in and after an answer's header", async (t) => {
  const { client, seen } = await serve(t, (response, n) => {
    switch (n) {
      case 1:
        return response.destroy();
      case 2:
        return response.writeHead(200, { "Content-Length": "1000" }).write("[", () => response.destroy());
    }
    return json(response, 200, []);
  });
  assert.deepEqual(await client.GET("/api/v1/billing/plans"), []);
  assert.equal(seen.length, 3);
});

test("a command is waited for as long as it may take", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { client, seen } = await serve(
    t,
    (response) =>
      void setImmediate(() => {
        t.mock.timers.tick(300_000);
        json(response, 200, { exit_code: 0 });
      }),
  );
  const command = { command: ["sleep", "300"], timeout_seconds: 300 };
  const params = { path: { agent_id: "a" } };
  assert.equal((await client.POST("/api/v1/agents/{agent_id}/exec", { params, body: command })).exit_code, 0);
  assert.equal(seen.length, 1);
});

test("a verification of the audit log is waited for", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { client, seen } = await serve(
    t,
    (response) =>
      void setImmediate(() => {
        t.mock.timers.tick(600_000);
        json(response, 200, { verified: true });
      }),
  );
  const params = { query: { seal: "1:00" } };
  const verify = "/api/v1/organizations/current/audit-log/verify";
  assert.equal((await client.GET(verify, { params })).verified, true);
  assert.equal(seen.length, 1);
});

test("a call that is not answered is repeated after 2 minutes", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { client, seen } = await serve(t, (response, n) =>
    n > 1 ? json(response, 200, []) : void setImmediate(() => t.mock.timers.tick(120_000)),
  );
  assert.deepEqual(await client.GET("/api/v1/billing/plans"), []);
  assert.equal(seen.length, 2);
});

for (const token of ["secret\nvalue", "secret value", "secretä", "secret\u0000"]) {
  test(`the error of the malformed token ${JSON.stringify(token)} does not show it`, async (t) => {
    const { client, seen } = await serve(t, (response) => json(response, 200, {}), { token });
    await assert.rejects(client.GET("/api/v1/me"), (error) => {
      assert.ok(error instanceof TypeError);
      assert.match(error.message, /^The API token has a space/);
      assert.doesNotMatch(inspect(error, { depth: null }), /secret/);
      return true;
    });
    assert.equal(seen.length, 0);
  });
}

test("a call gives up after the given number of attempts", async (t) => {
  const broken = await serve(t, (response) => response.destroy(), { attempts: 3 });
  await assert.rejects(broken.client.GET("/api/v1/me"), (error) => {
    assert.ok(error instanceof ConnectionError);
    assert.ok(error.cause instanceof TypeError);
    return true;
  });
  assert.equal(broken.seen.length, 3);
  const busy = await serve(t, (response) => problem(response, 503, "store_unavailable"), { attempts: 1 });
  await assert.rejects(busy.client.GET("/api/v1/me"), { status: 503 });
  assert.equal(busy.seen.length, 1);
});

test("an error whose text breaks off keeps its status", async (t) => {
  const { client, seen } = await serve(t, (response) => {
    response.writeHead(404, { "Content-Length": 100 }).write("{", () => response.destroy());
  });
  await assert.rejects(client.GET("/api/v1/me"), { name: "APIError", status: 404 });
  assert.equal(seen.length, 1);
});

test("pauses double, and are random", async (t) => {
  const { client, pauses } = await serve(t, (response) => problem(response, 503, "later"), { attempts: 8 });
  await assert.rejects(client.GET("/api/v1/me"));
  const longest = [250, 500, 1000, 2000, 4000, 8000, 8000];
  assert.equal(pauses.length, longest.length);
  for (const [i, pause] of pauses.entries()) {
    const limit = longest[i] ?? 0;
    assert.ok(pause >= limit / 2 && pause <= limit, `pause ${i} is ${pause}, want ${limit / 2} to ${limit}`);
  }
});

test("Retry-After may be a date, and a long one is not waited for", async (t) => {
  const at = new Date(Date.now() + 30_000).toUTCString();
  const soon = await serve(t, (response, n) =>
    n < 2 ? problem(response, 503, "later", { "Retry-After": at }) : json(response, 200, {}),
  );
  await soon.client.GET("/api/v1/me");
  assert.ok(Number(soon.pauses[0]) > 1000 && Number(soon.pauses[0]) <= 37_500, `paused ${soon.pauses[0]}`);
  const [sent, later] = [3_600_000, 3_630_000].map((ahead) => new Date(Date.now() + ahead).toUTCString());
  const skewed = await serve(t, (response, n) =>
    n < 2 ? problem(response, 503, "later", { Date: sent!, "Retry-After": later! }) : json(response, 200, {}),
  );
  await skewed.client.GET("/api/v1/me");
  assert.ok(Number(skewed.pauses[0]) > 1000 && Number(skewed.pauses[0]) <= 38_750, `paused ${skewed.pauses[0]}`);
  const late = await serve(t, (response) => problem(response, 429, "rate_limited", { "Retry-After": "61" }));
  await assert.rejects(late.client.GET("/api/v1/me"), { retryAfter: 61 });
  assert.equal(late.seen.length, 1);
});

test("the caller's idempotency key is used, and a read has none", async (t) => {
  const { client, seen } = await serve(t, (response) => json(response, 201, {}));
  await client.POST("/api/v1/agents", { body, params: { header: { "Idempotency-Key": "mine" } } });
  await client.GET("/api/v1/me");
  await client.DELETE("/api/v1/agents/{agent_id}", { params: { path: { agent_id: "a/b" } } });
  assert.equal(seen[0]?.headers["idempotency-key"], "mine");
  assert.equal(seen[1]?.headers["idempotency-key"], undefined);
  assert.notEqual(seen[2]?.headers["idempotency-key"], undefined);
  assert.equal(seen[2]?.url, "/api/v1/agents/a%2Fb");
});

test("values of a query are encoded, and a body is JSON", async (t) => {
  const { client, seen } = await serve(t, (response) => json(response, 200, []));
  await client.GET("/api/v1/agents", { params: { query: { name: "ä b&c=d", limit: 5 } } });
  await client.POST("/api/v1/agents", { body, params: { header: { "idempotency-key": "any case" } as object } });
  assert.equal(seen[0]?.url, "/api/v1/agents?name=%C3%A4%20b%26c%3Dd&limit=5");
  assert.equal(seen[0]?.headers["content-type"], undefined);
  assert.equal(seen[1]?.headers["content-type"], "application/json");
  assert.equal(seen[1]?.headers["idempotency-key"], "any case");
});

test("each attempt has the token of its time, and the user agent", async (t) => {
  let n = 0;
  const { client, seen } = await serve(
    t,
    (response, n) => (n < 2 ? problem(response, 503, "later") : json(response, 200, {})),
    { token: async () => `token${++n}`, userAgent: "deploy/1.2" },
  );
  await client.GET("/api/v1/me");
  assert.deepEqual(
    seen.map((s) => s.headers.authorization),
    ["Bearer token1", "Bearer token2"],
  );
  assert.equal(seen[0]?.headers["user-agent"], "deploy/1.2 agents-typescript/0.0.0");
});

test("a refused token is renewed once a call", async (t) => {
  const refusals: (string | undefined)[] = [];
  const renew = (name: string) => (refused?: string) => {
    refusals.push(refused);
    return refused === undefined ? "old" : name;
  };
  const answer = (response: ServerResponse, _: number, { headers }: Seen) =>
    headers.authorization === "Bearer new" ? json(response, 200, {}) : problem(response, 401, "unauthorized");
  const good = await serve(t, answer, { token: renew("new"), attempts: 1 });
  await good.client.GET("/api/v1/me");
  assert.deepEqual(refusals, [undefined, "old"]);
  for (const [token, requests] of [["bad", 2], ["old", 1]] as const) {
    const { client, seen } = await serve(t, answer, { token: renew(token) });
    await assert.rejects(client.GET("/api/v1/me"), { status: 401 });
    assert.equal(seen.length, requests);
  }
  const { client, seen } = await serve(t, answer, { token: "key" });
  await assert.rejects(client.GET("/api/v1/me"), { status: 401 });
  assert.equal(seen.length, 1);
});

test("a token function that lost its connection is called again", async (t) => {
  const away = new ConnectionError("POST", "https://issuer.example", new Error("no route"));
  const asked: (string | undefined)[] = [];
  const failures = [away, undefined, away, undefined];
  const token = (refused?: string) => {
    asked.push(refused);
    const failure = failures.shift();
    if (failure !== undefined) {
      throw failure;
    }
    return refused === undefined ? "old" : "new";
  };
  const { client, seen } = await serve(
    t,
    (response, n) => (n < 2 ? problem(response, 401, "invalid_token") : json(response, 200, {})),
    { token },
  );
  await client.GET("/api/v1/me");
  assert.deepEqual(asked, [undefined, undefined, "old", "old"]);
  assert.deepEqual(
    seen.map((s) => s.headers.authorization),
    ["Bearer old", "Bearer new"],
  );
  const lost = await serve(t, (response) => json(response, 200, {}), { token: () => Promise.reject(away), attempts: 3 });
  await assert.rejects(lost.client.GET("/api/v1/me"), away);
  assert.equal(lost.pauses.length, 2);
});

test("an error of the token function is not repeated", async (t) => {
  const { client, seen } = await serve(t, (response) => json(response, 200, {}), {
    token: () => Promise.reject(new Error("signed out")),
  });
  await assert.rejects(client.GET("/api/v1/me"), { message: "signed out" });
  assert.equal(seen.length, 0);
});

test("redirects are refused, and the token stays with the API", async (t) => {
  const other = await serve(t, (response) => json(response, 200, {}));
  const { client, seen } = await serve(t, (response) => response.writeHead(307, { Location: other.url }).end());
  await assert.rejects(client.GET("/api/v1/me"), { status: 307, message: /redirect/ });
  assert.equal(seen.length, 1);
  assert.equal(other.seen.length, 0);
});

test("the base URL must use https, except for loopback addresses", () => {
  const refused = ["http://api.example.com", "http://localhost.a", "ftp://a", "a.b", "https://u:p@a", "https://a?b"];
  for (const baseURL of refused) {
    assert.throws(() => createClient({ baseURL, token: "so_key" }), /base URL/, baseURL);
  }
  const accepted = ["https://a/b/", "http://localhost:1", "http://api.localhost", "http://127.0.0.1", "http://[::1]"];
  for (const baseURL of accepted) {
    createClient({ baseURL, token: "so_key" });
  }
});

test("an empty token is refused, because it is a variable that is not set", () => {
  assert.throws(() => createClient({ baseURL: "https://a", token: "" }), /AGENTS_API_KEY/);
});

test("an empty id is refused, because it would name another resource", async (t) => {
  const { client, seen } = await serve(t, (response) => json(response, 200, {}));
  for (const id of ["", ".", ".."]) {
    await assert.rejects(client.DELETE("/api/v1/agents/{agent_id}", { params: { path: { agent_id: id } } }), TypeError);
  }
  assert.equal(seen.length, 0);
});

test("an error has all that the API says", async (t) => {
  const violation = { loc: ["body", "env_vars", "PORT"], msg: "is reserved", type: "value_error" };
  const { client } = await serve(t, (response, n) =>
    n < 2
      ? json(response, 422, { detail: [violation], code: "invalid_request" }, { "X-Request-Id": "r1" })
      : json(response, 409, { detail: "It is paused.", code: "agent_state_conflict", meta: { status: "paused" } }),
  );
  await assert.rejects(client.POST("/api/v1/agents", { body }), (error) => {
    assert.ok(error instanceof APIError);
    assert.deepEqual(error.violations, [violation]);
    assert.equal(error.requestId, "r1");
    assert.equal(error.message, "body.env_vars.PORT: is reserved (422 invalid_request, request r1)");
    return true;
  });
  await assert.rejects(client.POST("/api/v1/agents", { body }), {
    detail: "It is paused.",
    meta: { status: "paused" },
    message: "It is paused. (409 agent_state_conflict)",
  });
});

test("an answer of another server is an error, whatever it holds", async (t) => {
  const { client } = await serve(t, (response, n) => response.writeHead(n === 1 ? 403 : 200).end("<html>"));
  await assert.rejects(client.GET("/api/v1/me"), { status: 403, code: "", message: /status 403/ });
  await assert.rejects(client.GET("/api/v1/me"), { message: /GET \/api\/v1\/me: the answer is not JSON/ });
});

test("a success without the body that it must have is an error", async (t) => {
  const { client } = await serve(t, (response) => response.writeHead(200, { "Content-Length": "0" }).end());
  const params = { path: { agent_id: "a" } };
  await assert.rejects(client.GET("/api/v1/agents/{agent_id}", { params }), { message: /the answer is not JSON/ });
  await assert.rejects(client.waitUntilSettled("a"), { message: /the answer is not JSON/ });
});

test("an answer without a body is undefined", async (t) => {
  const { client } = await serve(t, (response) => response.writeHead(204).end());
  const params = { path: { key_id: "k" } };
  assert.equal(await client.DELETE("/api/v1/api-keys/{key_id}", { params }), undefined);
});

test("a signal ends a call during its request and between attempts", async (t) => {
  const during = new AbortController();
  const stuck = await serve(t, () => during.abort(new Error("enough")), { attempts: 1 });
  await assert.rejects(stuck.client.GET("/api/v1/me", { signal: during.signal }), { message: "enough" });
  const between = new AbortController();
  const busy = await serve(t, (response) => problem(response, 503, "later"), {
    sleep: async (_, signal) => {
      between.abort(new Error("enough"));
      signal.throwIfAborted();
    },
  });
  await assert.rejects(busy.client.GET("/api/v1/me", { signal: between.signal }), { message: "enough" });
  assert.equal(busy.seen.length, 1);
});

test("a signal ends the real pause between attempts", async (t) => {
  const controller = new AbortController();
  const { client } = await serve(
    t,
    (response) => {
      problem(response, 503, "later", { "Retry-After": "60" });
      setImmediate(() => controller.abort(new Error("enough")));
    },
    { sleep: undefined },
  );
  await assert.rejects(client.GET("/api/v1/me", { signal: controller.signal }), { message: "enough" });
});
