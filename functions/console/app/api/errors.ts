/** One rule that the input broke, as the API describes it. */
export interface Violation {
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** Why a call failed. Its message is for people. */
export class APIError extends Error {
  /** The HTTP status; 0 if the service gave no answer. */
  readonly status: number;
  /** Names the error for programs, such as "plan_capacity_exceeded". */
  readonly code: string;
  readonly requestID: string;
  readonly violations: Violation[];
  readonly meta: Record<string, unknown>;
  /** When the service asks to repeat the call, in milliseconds from now. */
  readonly retryAfter: number | undefined;

  constructor(fields: {
    status: number;
    code: string;
    message: string;
    requestID: string;
    violations?: Violation[];
    meta?: Record<string, unknown>;
    retryAfter?: number | undefined;
  }) {
    super(fields.message);
    this.name = "APIError";
    this.status = fields.status;
    this.code = fields.code;
    this.requestID = fields.requestID;
    this.violations = fields.violations ?? [];
    this.meta = fields.meta ?? {};
    this.retryAfter = fields.retryAfter;
  }

  /** Whether the call failed before it was sent, so that it changed nothing. */
  get unsent(): boolean {
    return this.code === "another_caller" || this.code === "issuer_unavailable";
  }

  /** Whether the same call may succeed later. */
  get temporary(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** Every failure as an APIError, also one of the console itself. */
export function asError(error: unknown): APIError {
  if (error instanceof APIError) {
    return error;
  }
  const message = error instanceof Error ? error.message : String(error);
  return new APIError({ status: 0, code: "console_error", message, requestID: "" });
}

/** The error of a response. */
export async function errorOf(response: Response, sentID: string): Promise<APIError> {
  const body = await parse(response);
  const violations = Array.isArray(body["detail"]) ? (body["detail"] as Violation[]) : [];
  const detail = typeof body["detail"] === "string" ? body["detail"] : "";
  const first = violations[0];
  return new APIError({
    status: response.status,
    code: text(body["code"]) || `http_${response.status}`,
    message: detail || (first ? describe(first) : `The service answered with status ${response.status}.`),
    requestID: text(body["request_id"]) || response.headers.get("X-Request-Id") || sentID,
    violations,
    meta: (body["meta"] as Record<string, unknown> | undefined) ?? {},
    retryAfter: retryAfter(response.headers.get("Retry-After")),
  });
}

async function parse(response: Response): Promise<Record<string, unknown>> {
  try {
    const body: unknown = await response.json();
    return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    return {}; // a proxy answered
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** What a Retry-After header asks for, in milliseconds. */
export function retryAfter(header: string | null): number | undefined {
  const seconds = Number(header);
  return header === null || !Number.isFinite(seconds) ? undefined : seconds * 1000;
}

/** A violation in words, with the field it is about. */
export function describe(violation: Violation): string {
  const field = violation.loc.filter((part) => part !== "body" && part !== "query").join(".");
  return field === "" ? violation.msg : `${field}: ${violation.msg}`;
}

/** The violations of one field, given its location without "body". */
export function violationsAt(error: APIError | undefined, ...loc: (string | number)[]): Violation[] {
  return (error?.violations ?? []).filter((violation) => {
    const rest = violation.loc[0] === "body" ? violation.loc.slice(1) : violation.loc;
    return loc.every((part, i) => String(rest[i]) === String(part));
  });
}
