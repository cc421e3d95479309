import { fetchWithRetries } from "./retry.js";
import type { Sending } from "./retry.js";
import type { CallOptions, Method } from "./types.js";

/** The untyped form of a call, which the parts of the client share. */
export interface AnyInit extends CallOptions {
  params?: { path?: object; query?: object; header?: object };
  body?: unknown;
  content?: string | Uint8Array;
  accept?: string;
  outage?: number;
  dryRun?: boolean;
}

/** What the parts of the client use. */
export interface Transport {
  attempts: number;
  sleep: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
  /** Sends a call and returns the decoded answer, or the stream of its bytes if accept is not JSON. */
  call: (method: Method, path: string, init?: AnyInit) => Promise<unknown>;
}

/** Returns what sends calls to the API at a base URL. */
export function newTransport(baseURL: string, sending: Sending): Transport {
  const base = checkBaseURL(baseURL).replace(/\/$/, "");
  const fetch = fetchWithRetries(sending);
  return {
    attempts: sending.attempts,
    sleep: (milliseconds, signal) => sending.sleep(milliseconds, signal ?? new AbortController().signal),
    call: async (method, path, init = {}) => {
      const { params = {}, body, content, accept = "application/json", outage, dryRun, onResponse, signal } = init;
      const url = base + fillPath(method, path, params.path);
      if (dryRun) {
        checkRehearsal(method, path);
      }
      const request = new Request(url + queryString({ ...params.query, ...(dryRun && { dry_run: true }) }), {
        method: method.toUpperCase(),
        headers: headersOf({
          ...(body !== undefined && { "Content-Type": "application/json" }),
          Accept: accept,
          ...(method !== "get" && { "Idempotency-Key": crypto.randomUUID() }),
          ...params.header,
        }),
        body: body === undefined ? ((content ?? null) as BodyInit | null) : JSON.stringify(body),
        signal: signal ?? null,
      });
      const response = await fetch(request, outage);
      const result = await dataOf(response, accept, `${method.toUpperCase()} ${path}`);
      onResponse?.(response);
      return result;
    },
  };
}

/** Decodes JSON, and returns the stream of another body. */
async function dataOf(response: Response, accept: string, what: string): Promise<unknown> {
  if (response.status === 204) {
    return undefined;
  }
  if (accept !== "application/json") {
    return response.body;
  }
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${what}: the answer is not JSON. Check the base URL.`, { cause });
  }
}

// fillPath puts the parameters into a path. An empty one would name another resource.
function fillPath(method: Method, path: string, values: object = {}): string {
  const ids = new Map<string, unknown>(Object.entries(values));
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = ids.get(name);
    if (typeof value !== "string" || value === "" || value === "." || value === "..") {
      throw new TypeError(`${method.toUpperCase()} ${path}: ${name} must be an id, not ${JSON.stringify(value)}.`);
    }
    return encodeURIComponent(value);
  });
}

function queryString(values: object): string {
  const pairs = given(values).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return pairs.length > 0 ? `?${pairs.join("&")}` : "";
}

// headersOf lets a header replace an earlier one whose name differs only in case.
function headersOf(values: object): Headers {
  const headers = new Headers();
  given(values).forEach(([name, value]) => headers.set(name, value));
  return headers;
}

// given returns the values that are not left out, as text.
function given(values: object): [string, string][] {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => [name, String(value)]);
}

// The API would carry out a call that it cannot rehearse.
function checkRehearsal(method: Method, path: string): void {
  const isOnlyCarriedOut = /\/(credentials\/reveal|exec|files)$/.test(path);
  if (method === "get" || !/^\/api\/v1\/agents($|\/)/.test(path) || isOnlyCarriedOut) {
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
