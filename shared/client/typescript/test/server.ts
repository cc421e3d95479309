import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { createClient } from "../src/index.js";
import type { Client, ClientOptions } from "../src/index.js";

/** A request that the server got. */
export interface Seen {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  body: string;
  bytes: Buffer;
}

/** A server for one test, and a client of it that does not pause. */
export interface Fixture {
  url: string;
  client: Client;
  /** The requests, in their order. */
  seen: Seen[];
  /** The pauses that the client asked for, in milliseconds. */
  pauses: number[];
}

/** Starts a server whose n-th request is answered by answer, with n from 1. */
export async function serve(
  t: TestContext,
  answer: (response: ServerResponse, n: number, request: Seen) => void,
  options: Partial<ClientOptions> = {},
): Promise<Fixture> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const bytes = Buffer.concat(chunks);
      const got = { method, url, headers, body: bytes.toString(), bytes };
      answer(response, seen.push(got), got);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const pauses: number[] = [];
  const sleep = async (milliseconds: number, signal: AbortSignal) => {
    signal.throwIfAborted();
    pauses.push(milliseconds);
  };
  return { url, client: createClient({ baseURL: url, token: "key", sleep, ...options }), seen, pauses };
}

/** Answers with JSON. */
export function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** Answers with an error of the API. */
export function problem(response: ServerResponse, status: number, code: string, headers: Record<string, string> = {}) {
  json(response, status, { detail: `It is ${code}.`, code, status, title: "", request_id: "r" }, headers);
}

/** Returns an agent. */
export function agent(status: string, stage = "running") {
  return { id: "a", name: "A", status, config: { provisioning_stages: [{ name: "runtime", status: stage }] } };
}

/** Begins a stream of server-sent events. */
export function stream(response: ServerResponse, text: string): ServerResponse {
  response.writeHead(200, { "Content-Type": "text/event-stream" }).write(text);
  return response;
}

/** Returns options of a client that sends each request once, and whose pauses advance the clock. */
export function virtualTime(t: TestContext): Partial<ClientOptions> {
  t.mock.timers.enable({ apis: ["Date"] });
  return { attempts: 1, sleep: async (milliseconds) => t.mock.timers.tick(Math.round(milliseconds)) };
}
