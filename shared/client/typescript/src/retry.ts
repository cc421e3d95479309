import { APIError, ConnectionError, readError } from "./error.js";

/**
 * An API key, or a function that returns the token of the next request. After a 401, the function gets the refused
 * token, once a call; if it returns another one, the call is repeated. So it is if the function throws a
 * ConnectionError, as while an identity provider is out of reach; any other error of it ends the call.
 */
export type Token = string | ((refused?: string) => string | Promise<string>);

/** How requests are sent: the options of createClient with their defaults. */
export interface Sending {
  token: Token;
  fetch: typeof globalThis.fetch;
  attempts: number;
  userAgent: string;
  sleep: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

// Pauses between attempts, in milliseconds.
const firstPause = 250;
const maxPause = 8000;

// How many milliseconds a request may wait for its answer. The API holds a request for a minute at most, unless it is a
// command, which says how long it may take, or reads the whole audit log.
const patience = 120_000;
const verification = 600_000;

// patienceFor returns how many milliseconds a request may wait for its answer.
function patienceFor(url: string, body: ArrayBuffer | null): number {
  if (/^[^?]*\/audit-log\/verify(\?|$)/.test(url)) {
    return patience + verification;
  }
  const text = /^[^?]*\/exec$/.test(url) && body ? new TextDecoder().decode(body) : "{}";
  const command = JSON.parse(text) as { timeout_seconds?: number };
  return patience + (command.timeout_seconds ?? 0) * 1000;
}

/** A call that the API asks to repeat later than this many seconds from now fails, and a wait pauses no longer. */
export const longestRetryAfter = 60;

/** How many milliseconds the API may be out of reach before a follower or a wait gives up. */
export const outagePatience = 120_000;

/**
 * Returns a fetch that sends a request until it succeeds, fails for good, or was sent often enough. Every request is
 * safe to repeat: it reads, or it has an idempotency key. It is repeated for as many milliseconds as `outage` after its
 * first failure, if its attempts take less; one that is sent once is not.
 */
export function fetchWithRetries(sending: Sending): (request: Request, outage?: number) => Promise<Response> {
  return async (request, outage = 0) => {
    const { token: source } = sending;
    const nextToken = typeof source === "function" ? source : () => source;
    const body = request.method === "GET" ? null : await request.arrayBuffer();
    request.signal.throwIfAborted();
    let token = "";
    let refusal: APIError | undefined; // of the token that must be replaced
    for (let attempt = 1, renewed = false, failing = 0; ; attempt++) {
      try {
        const next = await nextToken(refusal && token);
        if (refusal !== undefined) {
          renewed = true;
          if (next === token) {
            throw refusal;
          }
          refusal = undefined;
        }
        token = next;
        return await send(sending, request, body, token);
      } catch (error) {
        if (error instanceof APIError && error.status === 401 && !renewed) {
          refusal = error;
          continue;
        }
        failing ||= Date.now();
        const isOver = attempt >= sending.attempts && (sending.attempts === 1 || Date.now() - failing >= outage);
        if (isOver || !mayPass(error)) {
          throw error;
        }
        await sending.sleep(pause(attempt, error), request.signal);
      }
    }
  };
}

// checkToken throws if a token cannot be sent. The platform's own error would show the token.
function checkToken(token: string): void {
  if (/[^\x21-\x7e]/.test(token)) {
    throw new TypeError(
      "The API token has a space, a line break or another character that a token cannot have. " +
        "Check how it was copied or read from its file.",
    );
  }
}

// limited returns a signal that follows another one, and is also aborted after some time unless stop is called.
function limited(signal: AbortSignal, after: number): { signal: AbortSignal; stop: () => void } {
  const controller = new AbortController();
  const late = setTimeout(() => controller.abort(new Error(`No answer within ${after / 1000} s.`)), after);
  const abort = () => controller.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) {
    abort();
  }
  const stop = () => {
    clearTimeout(late);
    signal.removeEventListener("abort", abort); // the reader of a stream listens itself
  };
  return { signal: controller.signal, stop };
}

// send sends a request once. An answer in JSON is read, because the connection can break until its end.
async function send(sending: Sending, request: Request, body: ArrayBuffer | null, token: string): Promise<Response> {
  checkToken(token);
  const { method, url, signal } = request;
  const headers = new Headers(request.headers);
  headers.set("User-Agent", sending.userAgent); // browsers keep their own
  if (token !== "") {
    headers.set("Authorization", `Bearer ${token}`);
  }
  const limit = limited(signal, patienceFor(url, body));
  try {
    const content = body?.byteLength ? body : null;
    const init = { method, headers, body: content, signal: limit.signal, redirect: "manual" } as const;
    const response = await sending.fetch(url, init);
    if (!response.ok) {
      const text = await response.text().catch(() => ""); // the status is known, so an answer may break off
      throw readError(response, text);
    }
    if (response.status === 204 || headers.get("Accept") !== "application/json") {
      return response;
    }
    return new Response(await response.arrayBuffer(), response);
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof APIError ? error : new ConnectionError(method, url, error);
  } finally {
    limit.stop();
  }
}

/** Reports whether a request that failed may succeed later. */
export function mayPass(error: unknown): boolean {
  if (!(error instanceof APIError)) {
    return error instanceof ConnectionError;
  }
  const passing = error.status === 409 ? error.code === "idempotency_in_progress" : isTransient(error.status);
  return passing && error.retryAfter <= longestRetryAfter;
}

function isTransient(status: number): boolean {
  return status === 408 || status === 429 || status === 502 || status === 503 || status === 504;
}

// pause returns how many milliseconds to wait after an attempt: what the API asks for and up to a quarter more, or else
// a random time that doubles, so that clients which failed together do not return together.
function pause(attempt: number, error: unknown): number {
  if (error instanceof APIError && error.retryAfter > 0) {
    return error.retryAfter * 1000 * (1 + Math.random() / 4);
  }
  return (Math.min(firstPause * 2 ** (attempt - 1), maxPause) * (1 + Math.random())) / 2;
}

/** Waits. It rejects with the signal's reason when the signal is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) {
      abort();
    }
  });
}
