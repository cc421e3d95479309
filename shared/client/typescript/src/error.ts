import type { HTTPValidationError, Problem, ValidationError } from "./schema.js";

/** What an answer that is no success says. */
export interface Refusal {
  /** The HTTP status, such as 409. */
  readonly status: number;
  /**
   * The name of the error for programs, such as `agent_state_conflict`. New codes may be added. It is empty if the
   * answer did not come from the API, for example from a load balancer in front of it.
   */
  readonly code: string;
  /** What happened, and what to do. */
  readonly detail: string;
  /** All faults of an invalid request. */
  readonly violations: readonly ValidationError[];
  /** Identifies the request for support. */
  readonly requestId: string;
  /** Further values of the error, such as `allowed_actions`. */
  readonly meta: Readonly<Record<string, unknown>>;
  /** How many seconds the API asks to wait before the next attempt; 0 if it does not say. */
  readonly retryAfter: number;
}

/** An answer of the API that is no success. */
export class APIError extends Error {
  override readonly name = "APIError";

  constructor(message: string, refusal: Refusal) {
    super(message);
    Object.assign(this, refusal);
  }
}

export interface APIError extends Refusal {}

/**
 * The API could not be reached, did not answer within 2 minutes, or the connection broke, as often as the client tried.
 * `cause` says which.
 */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";

  constructor(method: string, url: string, cause: unknown) {
    super(`${method} ${url}: the connection to the API failed. Check the network and the base URL.`, { cause });
  }
}

/** Returns the location of a violation in one word, such as `body.env_vars.PORT`. */
export function violationPath(v: ValidationError): string {
  return v.loc.join(".");
}

/** Reads the error in an answer that is no success. */
export function readError(response: Response, text: string): APIError {
  const unknown = isRedirect(response)
    ? "The server answered with a redirect, which is not followed because requests carry a token. Check the base URL."
    : `The server answered with the status ${response.status}.`;
  const refusal = refusalOf(response, text, unknown);
  const { status, code, detail, violations, requestId } = refusal;
  const what = violations.map((v) => `${violationPath(v)}: ${v.msg}`).join("; ") || detail;
  const facts = [`${status}${code && ` ${code}`}`, requestId && `request ${requestId}`];
  return new APIError(`${what} (${facts.filter(Boolean).join(", ")})`, refusal);
}

/**
 * Reads an answer that is no success. If the answer did not come from the API, its detail is the unknown one, and the
 * request has the id with which it was sent.
 */
export function refusalOf(response: Response, text: string, unknown: string, sentId = ""): Refusal {
  const { detail, code, meta, request_id } = parse(text);
  const violations = Array.isArray(detail) ? detail : [];
  return {
    status: response.status,
    code: code ?? "",
    detail: typeof detail === "string" ? detail : detail ? "The request is invalid." : unknown,
    violations,
    requestId: response.headers.get("X-Request-Id") ?? request_id ?? sentId,
    meta: meta ?? {},
    retryAfter: retryAfter(response.headers),
  };
}

function parse(text: string): Partial<Problem | HTTPValidationError> {
  try {
    return Object(JSON.parse(text)); // an object also for null
  } catch {
    return {}; // it is not from the API
  }
}

/**
 * Reports whether the API says that an object does not exist. A page of another server, such as a proxy, with the
 * status 404 says nothing about it.
 */
export function isNotFound(error: unknown): boolean {
  return error instanceof APIError && error.status === 404 && error.code !== "";
}

/**
 * Returns the header Retry-After in seconds, also if it is a date; 0 if there is none. A date is that of the server's
 * clock, which the header Date shows. Browsers may hide it.
 */
export function retryAfter(headers: Headers): number {
  const value = headers.get("Retry-After") ?? "";
  if (/^\d{1,9}$/.test(value)) {
    return Number(value);
  }
  const at = Date.parse(value);
  const sent = Date.parse(headers.get("Date") ?? "");
  return Number.isNaN(at) ? 0 : Math.max(at - (Number.isNaN(sent) ? Date.now() : sent), 0) / 1000;
}

// Browsers hide the status of a redirect that is not followed.
function isRedirect(response: Response): boolean {
  const { type, status } = response;
  return type === "opaqueredirect" || (status > 300 && status < 400 && status !== 304);
}
