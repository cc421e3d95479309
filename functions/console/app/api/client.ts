import { retryAfter } from "@agents.example/client/error";
import { learnTime } from "./clock";
import { type CallError, errorOf, unanswered } from "./errors";
import { isSameCaller } from "../session/oidc";
import { renewSession, session, tokenForCall } from "../session/session";
import { toast } from "../ui/announce";

export interface Call {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Names what a person wants once, so that repeats of a call change it only once. */
  intent?: string;
  /** How long the answer may take, in milliseconds. */
  timeout?: number;
  /** A token to use in place of the session's. */
  token?: string;
}

export interface Answer<T> {
  /** The body; undefined for 204 and 304. */
  data: T;
  status: number;
  etag: string | null;
  /** The cursor of the list's next page, or null after the last one. */
  next: string | null;
  /** How many seconds the service asks to wait before the next call; 0 if it does not say. */
  retryAfter: number;
}

const timeout = 30_000;

/** The headers of a call for what changed since a version was read. */
export const ifChanged = (etag: string | null): Record<string, string> =>
  etag === null ? {} : { "If-None-Match": etag };

/** A new name for what a person wants. */
export const newIntent = (): string => crypto.randomUUID();

/** Calls the API with the session's token. An expired session is renewed first, by the person if it must be. */
export async function call<T>(path: string, options: Call = {}): Promise<Answer<T>> {
  const response = await send(path, options);
  const empty = response.status === 204 || response.status === 304;
  return {
    data: (empty ? undefined : await json(response)) as T,
    status: response.status,
    etag: response.headers.get("ETag"),
    next: response.headers.get("X-Next-Cursor"),
    retryAfter: retryAfter(response.headers),
  };
}

/** Calls the API and returns the response, for bodies that are not JSON. Its status is 2xx or 304. */
export async function send(path: string, options: Call = {}): Promise<Response> {
  const asked = session.value?.token ?? "";
  for (let renewals = 0; ; renewals++) {
    const token = options.token ?? (await tokenForCall());
    const sentID = crypto.randomUUID();
    if (options.token === undefined && (options.method ?? "GET") !== "GET" && !isSameCaller(asked, token)) {
      throw anotherCaller(sentID);
    }
    const response = await request(path, options, token, sentID);
    if (response.ok || response.status === 304) {
      return response;
    }
    const error = await errorOf(response, sentID);
    if (error.status !== 401 || options.token !== undefined || renewals >= 2) {
      throw error;
    }
    await renewSession(token, renewals > 0); // rejects if the person signs out instead
  }
}

/** A change that one person asked for must not happen in the name of another, or in another organization. */
function anotherCaller(requestID: string): CallError {
  const message =
    "You signed in with another account, key or organization, so nothing was sent. Check it and try again.";
  toast(message, "warn"); // the form with the failure disappears if the new caller sees other things
  return unanswered("another_caller", message, requestID);
}

async function request(path: string, options: Call, token: string, sentID: string): Promise<Response> {
  const { method = "GET", body, query = {} } = options;
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") {
      url.searchParams.set(name, String(value));
    }
  }
  const headers = new Headers({ ...options.headers, Authorization: `Bearer ${token}`, "X-Request-Id": sentID });
  if (body !== undefined) {
    headers.set("Content-Type", "application/json");
  }
  if (method !== "GET") {
    headers.set("Idempotency-Key", options.intent ?? newIntent());
  }
  const expired = AbortSignal.timeout(options.timeout ?? timeout);
  const signal = options.signal ? AbortSignal.any([options.signal, expired]) : expired;
  try {
    const init: RequestInit = { method, headers, signal, credentials: "omit", cache: "no-store", redirect: "error" };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
    }
    const sent = Date.now();
    const response = await fetch(url, init);
    learnTime(response.headers.get("Date"), sent, Date.now());
    return response;
  } catch (cause) {
    if (options.signal?.aborted) {
      throw cause;
    }
    throw unreachable(sentID, expired.aborted);
  }
}

function unreachable(requestID: string, late: boolean): CallError {
  const message = late
    ? "The service did not answer in time. Try again."
    : "The service could not be reached. Check your connection and try again.";
  return unanswered(late ? "timeout" : "unreachable", message, requestID);
}

async function json(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    const requestID = response.headers.get("X-Request-Id") ?? "";
    throw unanswered("incomplete_answer", "The service’s answer was cut off. Try again.", requestID);
  }
}
