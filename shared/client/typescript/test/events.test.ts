import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { test } from "node:test";

import { APIError, ConnectionError } from "../src/index.js";
import type { Client, FollowEventsOptions } from "../src/index.js";
import { json, problem, serve, stream, virtualTime } from "./server.js";
import type { Seen } from "./server.js";

// The id of the newest event. The events 3 and 6 do not match the filter, so that only the cursor moves.
const last = 6;

/** Returns what a stream sends after an event. */
function textAfter(cursor: number): string {
  let text = "retry: 7\n\n";
  for (let id = cursor + 1; id <= last; id++) {
    const body = id % 3 === 0 ? `: heartbeat\nid: ${id}` : `id: ${id}\nevent: agent.running\ndata: {"id": "${id}"}`;
    text += `${body}\n\n`;
  }
  return text;
}

/** One answer to a request for a stream, which sends the given text. */
type Answer = (response: ServerResponse, text: string) => unknown;

const whole: Answer = (response, text) => stream(response, text).end();
const page: Answer = (response) => {
  response.writeHead(200, { "Content-Type": "text/html" }).end("<html>\n\nSign in to the network\n\n</html>\n");
};
const down: Answer = (response) => problem(response, 503, "store_unavailable");
const refused = (status: number, code: string) => (response: ServerResponse) => problem(response, status, code);

/** Answers with a script of streams, and then that the cursor has expired. The newest event is 0 at the list. */
const script = (...answers: Answer[]) => {
  return (response: ServerResponse, _: number, { url, headers }: Seen) => {
    if (!url.startsWith("/api/v1/events/stream")) {
      return json(response, 200, [], { "X-Event-Cursor": "0" });
    }
    const answer = answers.shift() ?? refused(400, "cursor_expired");
    answer(response, textAfter(Number(headers["last-event-id"])));
  };
};

/** Returns the ids of the events, and the error that ended them. */
async function follow(client: Client, options?: FollowEventsOptions): Promise<{ ids: string; error: unknown }> {
  const ids: string[] = [];
  try {
    for await (const { id } of client.followEvents(options)) {
      ids.push(id);
    }
  } catch (error) {
    return { ids: ids.join(" "), error };
  }
  return { ids: ids.join(" "), error: undefined };
}

const cursors = (seen: Seen[]) => seen.slice(1).map(({ headers }) => headers["last-event-id"]);

// The stream is cut after each of its bytes, with and without an error of the connection.
const cuts: Record<string, (response: ServerResponse, text: string) => void> = {
  breaks: (response, text) => void stream(response, "").write(text, () => response.destroy()),
  ends: whole,
};
for (const [how, cut] of Object.entries(cuts)) {
  test(`no event is lost or repeated when a stream ${how} after any of its bytes`, async (t) => {
    for (let bytes = 1; bytes <= textAfter(0).length; bytes++) {
      const answers = script((response, text) => cut(response, text.slice(0, bytes)), down, whole);
      await t.test(`${bytes}`, async (t) => {
        const { client, seen } = await serve(t, answers, { attempts: 1 });
        const { ids, error } = await follow(client);
        assert.equal(ids, "1 2 4 5");
        assert.ok(error instanceof APIError && error.code === "cursor_expired", `ended with ${error}`);
        assert.deepEqual([cursors(seen)[0], cursors(seen).at(-1)], ["0", `${last}`]);
      });
    }
  });
}

test("a stream that is cut before its first byte resumes from the newest event", async (t) => {
  const { client, seen } = await serve(t, script((response) => response.destroy(), whole), { attempts: 1 });
  const { ids, error } = await follow(client);
  assert.equal(ids, "");
  assert.ok(error instanceof ConnectionError, `ended with ${error}`); // as of a server that does not exist
  assert.deepEqual(cursors(seen), ["0"]);

  const headersOnly: Answer = (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
    setImmediate(() => response.destroy());
  };
  const cut = await serve(t, script(headersOnly, headersOnly, whole), { attempts: 1 });
  assert.equal((await follow(cut.client)).ids, "1 2 4 5");
  assert.deepEqual(cursors(cut.seen), ["0", "0", "0", "6"]);
});

test("a page of another server is no stream", async (t) => {
  const { client, seen } = await serve(t, script(page), { attempts: 1 });
  const { error } = await follow(client);
  assert.ok(error instanceof ConnectionError, `ended with ${error}`);
  assert.match(String(error.cause), /no stream of events/);
  assert.deepEqual(cursors(seen), ["0"]);
});

for (const [name, { answers, ids = "1 2 4 5", code }] of Object.entries<{
  answers: Answer[];
  ids?: string;
  code: string;
}>({
  "an outage of an hour": {
    answers: [(response, text) => cuts.breaks?.(response, text.slice(0, 60)), ...Array(150).fill(down), whole],
    code: "cursor_expired",
  },
  "a page of a proxy between streams": { answers: [whole, page, whole], code: "cursor_expired" },
  "a token that was revoked": { answers: [whole, refused(401, "invalid_token")], code: "invalid_token" },
  "access that was withdrawn": { answers: [whole, refused(403, "role_required")], code: "role_required" },
  "a refusal of the first stream": { answers: [refused(403, "role_required")], ids: "", code: "role_required" },
  "an API that is down from the first stream": { answers: [down], ids: "", code: "store_unavailable" },
})) {
  test(`events are followed until an error is permanent: ${name}`, async (t) => {
    const { client } = await serve(t, script(...answers), virtualTime(t));
    const got = await follow(client);
    assert.equal(got.ids, ids);
    assert.ok(got.error instanceof APIError && got.error.code === code, `ended with ${got.error}, want ${code}`);
  });
}

test("events are followed from a cursor, with the filter, after the pause that the API asks for", async (t) => {
  const { client, seen, pauses } = await serve(t, script(whole));
  const { ids } = await follow(client, { cursor: "2", agent_id: "a", type: "agent.running" });
  assert.equal(ids, "4 5");
  const url = "/api/v1/events/stream?agent_id=a&type=agent.running";
  assert.deepEqual(
    seen.map((s) => [s.url, s.headers["last-event-id"]]),
    [
      [url, "2"],
      [url, "6"],
    ],
  );
  assert.deepEqual(pauses, [7]);
});

test("leaving the loop closes the stream of events, and a signal ends it", async (t) => {
  let closed: Promise<unknown> | undefined;
  const open: Answer = (response, text) => {
    closed = once(response, "close");
    stream(response, text);
  };
  const { client, seen } = await serve(t, script(open, open));
  for await (const { id } of client.followEvents({ cursor: "0" })) {
    assert.equal(id, "1");
    break;
  }
  await closed;
  const controller = new AbortController();
  await assert.rejects(
    async () => {
      for await (const { id } of client.followEvents({ cursor: "4", signal: controller.signal })) {
        assert.equal(id, "5");
        controller.abort(new Error("enough"));
      }
    },
    { message: "enough" },
  );
  await closed;
  assert.equal(seen.length, 2);
});

test("an event that cannot be read is an error", async (t) => {
  const { client, seen } = await serve(t, script((response) => stream(response, "data: {\n\n").end()));
  assert.ok((await follow(client)).error instanceof SyntaxError);
  assert.equal(seen.length, 2);
});
