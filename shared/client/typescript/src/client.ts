import { filesOf } from "./files.js";
import type { Files } from "./files.js";
import { pagesOf } from "./page.js";
import type { Listing } from "./page.js";
import { sleep } from "./retry.js";
import type { Token } from "./retry.js";
import { streamsOf } from "./stream.js";
import type { Streaming } from "./stream.js";
import { newTransport } from "./transport.js";
import type { AnyInit } from "./transport.js";
import type { Call, Method } from "./types.js";
import { VERSION } from "./version.js";
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
export interface Client extends Listing, Waiting, Streaming, Files {
  readonly GET: Call<"get">;
  readonly POST: Call<"post">;
  readonly PUT: Call<"put">;
  readonly PATCH: Call<"patch">;
  readonly DELETE: Call<"delete">;
}

/** Returns a client. */
export function createClient(options: ClientOptions): Client {
  if (options.token === "") {
    throw new TypeError("The token is empty. Set the API key, for example in AGENTS_API_KEY.");
  }
  const { attempts = 5, sleep: pause = sleep, fetch = (...request) => globalThis.fetch(...request) } = options;
  const transport = newTransport(options.baseURL, {
    token: options.token,
    fetch,
    attempts,
    userAgent: [options.userAgent, `agents-typescript/${VERSION}`].filter(Boolean).join(" "),
    sleep: pause,
  });
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
    ...filesOf(transport),
  };
}
