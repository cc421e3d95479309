import type { HTTPValidationError, Problem, ValidationError } from "./schema.js";

/** An answer of the API that is no success. */
export class APIError extends Error {
  override readonly name = "APIError";
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

  constructor(response: Response, body: Partial<Problem | HTTPValidationError>) {
    const violations = Array.isArray(body.detail) ? body.detail : [];
    let detail = typeof body.detail === "string" ? body.detail : "The request is invalid.";
    if (body.detail === undefined) {
      detail = isRedirect(response)
        ? "The server answered with a redirect, which is not followed because requests carry a token. " +
          "Check the base URL."
        : `The server answered with the status ${response.status}.`;
    }
    const requestId = response.headers.get("X-Request-Id") ?? "";
    const code = body.code ?? "";
    const text = violations.map((v) => `${violationPath(v)}: ${v.msg}`).join("; ") || detail;
    const facts = [`${response.status}${code && ` ${code}`}`, requestId && `request ${requestId}`];
    super(`${text} (${facts.filter(Boolean).join(", ")})`);
    this.status = response.status;
    this.code = code;
    this.detail = detail;
    this.violations = violations;
    this.requestId = requestId;
    this.meta = body.meta ?? {};
    this.retryAfter = retryAfter(response.headers);
  }
}

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
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // It is not from the API.
  }
  return new APIError(response, typeof body === "object" && body !== null ? body : {});
}

/** Returns the header Retry-After in seconds, also if it is a date; 0 if there is none. */
export function retryAfter(headers: Headers): number {
  const value = headers.get("Retry-After") ?? "";
  if (/^\d{1,9}$/.test(value)) {
    return Number(value);
  }
  const at = Date.parse(value);
  return Number.isNaN(at) ? 0 : Math.max(at - Date.now(), 0) / 1000;
}

// Browsers hide the status of a redirect that is not followed.
function isRedirect(response: Response): boolean {
  const { type, status } = response;
  return type === "opaqueredirect" || (status > 300 && status < 400 && status !== 304);
}
