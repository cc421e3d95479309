import assert from "node:assert/strict";
import { test } from "node:test";

import { ConnectionError } from "../src/index.js";
import type { Client } from "../src/index.js";
import { problem, serve } from "./server.js";

const content = Buffer.from([0, 0xff, 0x80, 0x0a]); // not UTF-8

async function read(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const part of parts) {
    all.push(part);
  }
  return Buffer.concat(all);
}

for (const { name, url, accept, get } of [
  {
    name: "a file",
    url: "/api/v1/agents/a/files?path=%2Fdata%2Fx%20y",
    accept: "application/octet-stream",
    get: (client: Client) => client.getFile("a", "/data/x y"),
  },
  {
    name: "a directory",
    url: "/api/v1/agents/a/files?path=%2Fdata",
    accept: "application/x-tar",
    get: (client: Client) => client.getDirectory("a", "/data"),
  },
  {
    name: "a snapshot",
    url: "/api/v1/agents/a/snapshots/s/export",
    accept: "application/x-tar",
    get: (client: Client) => client.exportSnapshot("a", "s"),
  },
]) {
  test(`${name} arrives byte for byte, or throws if it is cut off`, async (t) => {
    const whole = await serve(t, (response, n) =>
      n === 1 ? problem(response, 503, "unavailable") : void response.writeHead(200).end(content),
    );
    assert.deepEqual(await read(get(whole.client)), content);
    assert.deepEqual([whole.seen[1]?.url, whole.seen[1]?.headers.accept], [url, accept]);
    const cut = await serve(t, (response) => {
      response.writeHead(200, { "Content-Length": "1000" }).write(content, () => response.destroy());
    });
    await assert.rejects(read(get(cut.client)), ConnectionError);
    assert.equal(cut.seen.length, 1);
    const refused = await serve(t, (response) => problem(response, 404, "file_not_found"));
    await assert.rejects(read(get(refused.client)), { code: "file_not_found" });
  });
}

test("a download ends with its signal and its loop", { timeout: 60_000 }, async (t) => {
  const closed: Promise<void>[] = [];
  const { client } = await serve(t, (response) => {
    closed.push(new Promise((resolve) => response.on("close", resolve)));
    response.writeHead(200).write(content);
  });
  const controller = new AbortController();
  const reason = new Error("enough");
  await assert.rejects(async () => {
    for await (const part of client.getFile("a", "/data/x", { signal: controller.signal })) {
      assert.equal(part.length, content.length);
      controller.abort(reason);
    }
  }, reason);
  for await (const part of client.getFile("a", "/data/x")) {
    assert.equal(part.length, content.length);
    break;
  }
  await Promise.all(closed);
});

test("a file and an archive are sent byte for byte, in each attempt", async (t) => {
  const { client, seen } = await serve(t, (response, n) =>
    n % 2 === 1 ? problem(response, 503, "unavailable") : void response.writeHead(204).end(),
  );
  await client.putFile("a", "/data/x", content);
  await client.putDirectory("a", "/data", content);
  await client.putFile("a", "/data/text", "Größe");
  await client.putFile("a", "/data/empty", "");
  assert.deepEqual(
    seen.map(({ method, url, headers, bytes }) => [method, url, headers["content-type"], bytes.toString("hex")]),
    [
      ["%2Fdata%2Fx", "application/octet-stream", content],
      ["%2Fdata", "application/x-tar", content],
      ["%2Fdata%2Ftext", "application/octet-stream", Buffer.from("Größe")],
      ["%2Fdata%2Fempty", "application/octet-stream", Buffer.alloc(0)],
    ].flatMap(([path, type, sent]) => {
      const request = ["PUT", `/api/v1/agents/a/files?path=${path as string}`, type, (sent as Buffer).toString("hex")];
      return [request, request];
    }),
  );
  assert.equal(new Set(seen.map(({ headers }) => headers["idempotency-key"])).size, 4);
});
