import { useRef } from "preact/hooks";
import { CallError } from "./errors";

/** The failure of a change of something that is not as the person saw it. The sentence says what became of it. */
export function overtaken(sentence: string): CallError {
  const detail = `${sentence} Close this and look again.`;
  const rest = { status: 412, code: "precondition_failed", violations: [], requestId: "", meta: {}, retryAfter: 0 };
  return new CallError(detail, { ...rest, detail });
}

/** Lists with the same items are the same: the service sorts them. */
const formOf = (value: unknown): string =>
  JSON.stringify(value, (_, part) => (Array.isArray(part) ? [...new Set(part)].sort() : part));

/**
 * Returns whether a value is already the one that a person wants, given what it is now. It throws if others have
 * changed it: what the person knows is the value when the form was opened, and what was sent since then, because the
 * service may have made a change whose answer was lost.
 */
export function useKnown<T>(opened: T, sentence: string): (now: T, wanted: T) => boolean {
  const known = useRef([formOf(opened)]);
  return (now, wanted) => {
    if (formOf(now) === formOf(wanted)) {
      return true;
    }
    if (!known.current.includes(formOf(now))) {
      throw overtaken(sentence);
    }
    known.current.push(formOf(wanted));
    return false;
  };
}
