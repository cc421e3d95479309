import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { ConnectionError } from "../src/index.js";
import type { AgentLogLine } from "../src/index.js";
import { agent, json, problem, serve, stream, virtualTime } from "./server.js";
import type { Seen } from "./server.js";

const line = (message: string) => JSON.stringify({ time: null, message, stream: "combined" });
const event = (id: string, message: string) => `id: ${id}\ndata: ${line(message)}\n\n`;

async function messages(lines: AsyncIterable<AgentLogLine>): Promise<string[]> {
  const all: string[] = [];
  for await (const { message } of lines) {
    all.push(message);
  }
  return all;
}

test("a log is read line by line, however it arrives", async (t) => {
  const bytes = Buffer.from(`${line("grün")}\n${line("two")}\n`);
  const { client, seen } = await serve(t, async (response) => {
    for (const byte of bytes) {
      response.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
    response.end();
  });
  assert.deepEqual(await messages(client.logs("a", { tail: 5, since: "10m" })), ["grün", "two"]);
  assert.equal(seen[0]?.url, "/api/v1/agents/a/logs?tail=5&since=10m");
  assert.equal(seen[0]?.headers.accept, "application/x-ndjson");
});

test("a log that breaks off is an error", async (t) => {
  const { client } = await serve(t, (response) => {
    response.write(`${line("one")}\n{"mess`, () => response.destroy());
  });
  await assert.rejects(messages(client.logs("a")), ConnectionError);
});

test("a follower continues after the last event until the agent has stopped", async (t) => {
  const { client, seen, pauses } = await serve(t, (response, n) => {
    switch (n) {
      case 1: // the connection breaks in the middle of an event
        return stream(response, `retry: 7\n\n${event("1", "one")}: heartbeat\n\n${event("2", "two")}id: 3\nda`).write(
          "ta: {",
          () => response.destroy(),
        );
      case 2:
        return response.destroy();
      case 3:
        return problem(response, 503, "cluster_unavailable");
      case 4: // the answer ends
        return stream(response, `${event("3", "three")}event: later\ndata: other\n\n`).end();
      case 5:
        return problem(response, 409, "agent_not_running"); // while it restarts
      case 6:
        return json(response, 200, agent("running"));
      case 7:
        return stream(response, event("4", "four")).end();
      case 8:
        return problem(response, 409, "agent_not_running");
    }
    return json(response, 200, agent("stopped"));
  });
  const ids: string[] = [];
  const lines = client.followLogs("a", { tail: 1, onEvent: (id) => ids.push(id) });
  assert.deepEqual(await messages(lines), ["one", "two", "three", "four"]);
  assert.deepEqual(ids, ["1", "2", "3", "4"]);
  const logs = seen.filter((s) => s.url.endsWith("/logs?tail=1&follow=true"));
  assert.deepEqual(
    logs.map((s) => s.headers["last-event-id"]),
    [undefined, "2", "2", "2", "3", "3", "4"],
  );
  assert.equal(pauses[0], 7);
});

test("a follower without onEvent repeats no line", async (t) => {
  const { client, seen } = await serve(t, (response, n) => {
    return n <= 2 ? stream(response, event(`${n}`, `${n}`)).end() : problem(response, 404, "agent_not_found");
  });
  assert.deepEqual(await messages(client.followLogs("a")), ["1", "2"]);
  assert.deepEqual(
    seen.map((s) => s.headers["last-event-id"]),
    [undefined, "1", "2"],
  );
});

test("a follower takes no page of a proxy for the end of the agent", async (t) => {
  const { client } = await serve(t, (response, n) => {
    return n === 1 ? stream(response, event("1", "1")).end() : response.writeHead(404).end("<h1>Page not found</h1>");
  });
  await assert.rejects(messages(client.followLogs("a")), { name: "APIError", status: 404, code: "" });
});

test("a follower that never was connected throws the error", async (t) => {
  const { client, seen } = await serve(t, (response) => problem(response, 409, "agent_not_running"));
  await assert.rejects(messages(client.followLogs("a")), { code: "agent_not_running" });
  assert.equal(seen.length, 1);
});

test("a follower of a quiet log outlives many cut connections", async (t) => {
  const { client, seen } = await serve(t, (response, n) => {
    if (n <= 20) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      return void response.write("retry: 1\n\n: heartbeat\n\n", () => response.destroy());
    }
    if (n === 21) {
      return void stream(response, event("1", "one")).end();
    }
    return problem(response, 404, "agent_not_found");
  });
  assert.deepEqual(await messages(client.followLogs("a")), ["one"]);
  assert.equal(seen.length, 22);
});

// The n-th stream is opened if opens(n); otherwise, the agent has no pod and the given status.
const podless = (opens: (n: number) => boolean, status: string) => {
  let streams = 0;
  return (response: ServerResponse, _: number, { url }: Seen) => {
    if (!url.includes("/logs")) {
      return json(response, 200, agent(status));
    }
    const n = ++streams;
    return opens(n) ? void stream(response, event(`${n}`, `${n}`)).end() : problem(response, 409, "agent_not_running");
  };
};

for (const status of ["running", "provisioning", "pending"]) {
  test(`a follower waits for the pod of a ${status} agent, for more than 5 minutes`, async (t) => {
    const { client } = await serve(t, podless((n) => n === 1, status), virtualTime(t));
    const began = Date.now();
    const lines = client.followLogs("a");
    assert.equal((await lines.next()).value?.message, "1");
    await assert.rejects(lines.next(), { code: "agent_not_running" });
    const waited = (Date.now() - began) / 60_000;
    assert.ok(waited > 5 && waited < 8, `waited ${waited} minutes, want 6`);
  });
}

test("a follower goes on in the pod that an agent gets after 4 minutes", async (t) => {
  const { client } = await serve(t, podless((n) => n === 1 || n === 12, "running"), virtualTime(t));
  const lines = client.followLogs("a");
  assert.equal((await lines.next()).value?.message, "1");
  assert.equal((await lines.next()).value?.message, "12");
  await lines.return();
});

for (const status of ["stopped", "paused", "error", "deleting"]) {
  test(`a follower ends when the agent is ${status}`, async (t) => {
    const { client } = await serve(t, podless((n) => n === 1, status));
    assert.deepEqual(await messages(client.followLogs("a")), ["1"]);
  });
}

test("a follower gives up when the API is out of reach for 2 minutes", async (t) => {
  const { client } = await serve(
    t,
    (response, n) => (n === 1 ? void stream(response, event("1", "one")).end() : void response.destroy()),
    virtualTime(t),
  );
  const began = Date.now();
  await assert.rejects(messages(client.followLogs("a")), ConnectionError);
  const waited = (Date.now() - began) / 60_000;
  assert.ok(waited > 2 && waited < 4, `waited ${waited} minutes, want more than 2`);
});

test("a follower starts after the given event, and leaving its loop closes the connection", async (t) => {
  let closed: Promise<unknown> | undefined;
  const { client, seen } = await serve(t, (response) => {
    closed = once(response, "close");
    stream(response, event("8", "one"));
  });
  for await (const { message } of client.followLogs("a", { lastEventId: "7" })) {
    assert.equal(message, "one");
    break;
  }
  await closed;
  assert.equal(seen[0]?.headers["last-event-id"], "7");
});

test("a signal ends a follower", async (t) => {
  const controller = new AbortController();
  const { client } = await serve(t, (response) => void stream(response, event("1", "one")));
  await assert.rejects(
    async () => {
      for await (const _ of client.followLogs("a", { signal: controller.signal })) {
        controller.abort(new Error("enough"));
      }
    },
    { message: "enough" },
  );
});

test("a follower leaves a stream that is silent for a minute", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let silent = () => {};
  const waiting = new Promise<void>((resolve) => (silent = resolve));
  const { client, seen } = await serve(t, (response, n) => {
    if (n === 1) {
      return void stream(response, event("1", "one"));
    }
    return void problem(response, 404, "agent_not_found");
  });
  const lines = client.followLogs("a");
  assert.equal((await lines.next()).value?.message, "one");
  const next = lines.next().finally(silent);
  await new Promise(setImmediate);
  t.mock.timers.tick(60_000);
  await waiting;
  assert.equal((await next).done, true);
  assert.equal(seen.length, 2);
});

test("an aborted signal ends a stream, also after garbage was collected", { timeout: 60_000 }, async (t) => {
  const { client } = await serve(t, (response) => stream(response, `${line("one")}\n`));
  const end = new AbortController();
  const lines = client.logs("a", { signal: end.signal });
  await lines.next();
  const next = lines.next();
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let i = 0; i < 10; i++) {
    collect();
    await new Promise(setImmediate);
  }
  end.abort(new Error("enough"));
  await assert.rejects(next, { message: "enough" });
});
