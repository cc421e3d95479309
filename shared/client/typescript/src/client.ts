import createFetchClient from "openapi-fetch";

import { pagesOf } from "./page.js";
import type { Listing } from "./page.js";
import { fetchWithRetries, sleep } from "./retry.js";
import type { Token } from "./retry.js";
import type { paths } from "./schema.js";
import { streamsOf } from "./stream.js";
import type { Streaming } from "./stream.js";
import type { AnyInit, Transport } from "./transport.js";
import type { Call, Method } from "./types.js";
import { waitsOf } from "./wait.js";
import type { Waiting } from "./wait.js";

/** Options of createClient. */
export interface ClientOptions {
  /** Where the API is, such as `https://api.example.com`. It must use https, except for loopback addresses. */
  baseURL: string;
  /** Authorizes the requests. An API key never belongs in a browser. */
  token: Token;
  /** Sends the requests; default: the platform's fetch. */
  fetch?: typeof globalThis.fetch | undefined;
  /** How often a request is sent at most; 1 repeats nothing. Default: 5. */
  attempts?: number | undefined;
  /** A program's name and version, such as `deploy/1.2`. The organization's audit log shows it, except for browsers. */
  userAgent?: string | undefined;
  /** Waits between attempts; for tests. */
  sleep?: ((milliseconds: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/**
 * Calls the API. The methods take a path of the API's description, and its parameters and body. They return the data of
 * the answer, and throw an APIError for an answer that is no success. Failures that pass are repeated; a call that
 * changes something gets an idempotency key, so that it takes effect once.
 */
export interface Client extends Listing, Waiting, Streaming {
  readonly GET: Call<"get">;
  readonly POST: Call<"post">;
  readonly PUT: Call<"put">;
  readonly PATCH: Call<"patch">;
  readonly DELETE: Call<"delete">;
}

/** Returns a client. */
export function createClient(options: ClientOptions): Client {
  const transport = newTransport(options);
  const method = <M extends Method>(name: M) =>
    ((path: string, init?: AnyInit) => transport.call(name, path, init)) as unknown as Call<M>;
  const GET = method("get");
  return {
    GET,
    POST: method("post"),
    PUT: method("put"),
    PATCH: method("patch"),
    DELETE: method("delete"),
    ...pagesOf(transport),
    ...waitsOf(transport, GET),
    ...streamsOf(transport),
  };
}

function newTransport(options: ClientOptions): Transport {
  const { attempts = 5, sleep: pause = sleep, fetch = (...request) => globalThis.fetch(...request) } = options;
  const client = createFetchClient<paths>({
    baseUrl: checkBaseURL(options.baseURL),
    fetch: fetchWithRetries({
      token: options.token,
      fetch,
      attempts,
      userAgent: [options.userAgent, "agents-typescript"].filter(Boolean).join(" "),
      sleep: pause,
    }),
  });
  const send = client.request as unknown as (method: Method, path: string, init: object) => Promise<Answer>;
  return {
    attempts,
    sleep: (milliseconds, signal) => pause(milliseconds, signal ?? new AbortController().signal),
    call: async (method, path, { accept = "application/json", dryRun, onResponse, signal, ...init } = {}) => {
      checkPathParameters(method, path, init.params?.path);
      if (dryRun) {
        checkRehearsal(method, path);
        init.params = { ...init.params, query: { ...init.params?.query, dry_run: true } };
      }
      const { data, response } = await send(method, path, {
        ...init,
        headers: { Accept: accept, ...(method !== "get" && { "Idempotency-Key": crypto.randomUUID() }) },
        parseAs: accept === "application/json" ? "text" : "stream",
        ...(signal && { signal }),
      });
      const result = typeof data === "string" ? parse(method, path, data) : data;
      onResponse?.(response);
      return result;
    },
  };
}

interface Answer {
  data?: string | ReadableStream<Uint8Array> | null;
  response: Response;
}

function parse(method: Method, path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${method.toUpperCase()} ${path}: the answer is not JSON. Check the base URL.`, { cause });
  }
}

// An empty parameter would name another resource.
function checkPathParameters(method: Method, path: string, values: object = {}): void {
  const given = new Map<string, unknown>(Object.entries(values));
  for (const [, name = ""] of path.matchAll(/\{(\w+)\}/g)) {
    const value = given.get(name);
    if (typeof value !== "string" || value === "" || value === "." || value === "..") {
      throw new TypeError(`${method.toUpperCase()} ${path}: ${name} must be an id, not ${JSON.stringify(value)}.`);
    }
  }
}

// The API would carry out a call that it cannot rehearse.
function checkRehearsal(method: Method, path: string): void {
  if (method === "get" || !/^\/api\/v1\/agents($|\/)/.test(path) || path.endsWith("/credentials/reveal")) {
    throw new TypeError(`${method.toUpperCase()} ${path} cannot be rehearsed. It was not sent.`);
  }
}

function checkBaseURL(text: string): string {
  if (!URL.canParse(text)) {
    throw new TypeError("The API's base URL must look like https://api.example.com.");
  }
  const url = new URL(text);
  if (url.username || url.password || url.search || url.hash || !/^https?:$/.test(url.protocol)) {
    throw new TypeError("The API's base URL must look like https://api.example.com.");
  }
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw new TypeError(
      `The API's base URL must use https, because http shows the token to the network: ${url.origin}.`,
    );
  }
  return url.href;
}

function isLoopback(host: string): boolean {
  return /^(.+\.)?localhost$|^127(\.\d+){3}$|^\[::1\]$/.test(host);
}
