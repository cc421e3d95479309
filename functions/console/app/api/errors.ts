import { APIError, refusalOf } from "@agents.example/client/error";
import type { ValidationError } from "@agents.example/client/schema";

/** Why a call failed. Its message is for people. Its status is 0 if the service gave no answer. */
export class CallError extends APIError {
  /** Whether the call failed before it was sent, so that it changed nothing. */
  get unsent(): boolean {
    return this.code === "another_caller" || this.code === "issuer_unavailable";
  }

  /** Whether the same call may succeed later. */
  get temporary(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }

  /** The same error with another text, and with some of its violations. */
  with(detail: string, violations: ValidationError[] = []): CallError {
    return new CallError(detail, { ...this, detail, violations });
  }
}

/** The error of a call without an answer. */
export function unanswered(code: string, detail: string, requestId = ""): CallError {
  return new CallError(detail, { status: 0, code, detail, violations: [], requestId, meta: {}, retryAfter: 0 });
}

/** Every failure as a CallError, also one of the console itself. */
export function asError(error: unknown): CallError {
  if (error instanceof CallError) {
    return error;
  }
  return unanswered("console_error", error instanceof Error ? error.message : String(error));
}

/** The error of a response. */
export async function errorOf(response: Response, sentID: string): Promise<CallError> {
  const unknown = `The service answered with status ${response.status}.`;
  const refusal = refusalOf(response, await response.text().catch(() => ""), unknown, sentID);
  const [first] = refusal.violations;
  return new CallError(first ? describe(first) : refusal.detail, refusal);
}

/** A violation in words, with the field it is about. */
export function describe(violation: ValidationError): string {
  const field = violation.loc.filter((part) => part !== "body" && part !== "query").join(".");
  return field === "" ? violation.msg : `${field}: ${violation.msg}`;
}

/** The violations of one field, given its location without "body". */
export function violationsAt(error: CallError | undefined, ...loc: (string | number)[]): ValidationError[] {
  return (error?.violations ?? []).filter((violation) => {
    const rest = violation.loc[0] === "body" ? violation.loc.slice(1) : violation.loc;
    return loc.every((part, i) => String(rest[i]) === String(part));
  });
}
