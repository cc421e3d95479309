import { useRef, useState } from "preact/hooks";
import { type Call, call, newIntent } from "./client";
import { type CallError, asError } from "./errors";

/** A change that a person makes: at most one call runs, and its failure stays until the next attempt. */
export interface Submit<I = void> {
  busy: boolean;
  error: CallError | undefined;
  /** Sends the change. A second call while one is under way does nothing. */
  send: (input: I) => Promise<void>;
  /** Sends exactly what the failed attempt sent, also if the page has changed since then. */
  retry: () => Promise<void>;
  /** Says that the person wants something else now, so the next attempt is not a repeat of the last one. */
  forget: () => void;
}

/** Sends a change that a person wants once. A retry after a lost answer has the same intent, so it cannot double it. */
export function useSubmit<I = void>(change: (intent: string, input: I) => Promise<void>): Submit<I> {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<CallError>();
  const last = useRef<{ intent: string; form: string; input: I } | undefined>(undefined);
  const running = useRef(false);
  const send = async (input: I) => {
    if (running.current) {
      return;
    }
    running.current = true;
    setBusy(true);
    const form = JSON.stringify(input ?? null);
    if (last.current?.form !== form) {
      last.current = { intent: newIntent(), form, input };
    }
    try {
      await change(last.current.intent, input);
      last.current = undefined;
      setError(undefined);
    } catch (cause) {
      const failure = asError(cause);
      if (!failure.temporary && failure.retryAfter === 0) {
        last.current = undefined; // the service refused the change, so the next one is another
      }
      setError(failure);
    } finally {
      running.current = false;
      setBusy(false);
    }
  };
  const retry = async () => {
    if (last.current !== undefined) {
      await send(last.current.input);
    }
  };
  const forget = () => {
    last.current = undefined;
    setError(undefined);
  };
  return { busy, error, send, retry, forget };
}

/** A call that changes something. */
export interface Change {
  path: string;
  method: NonNullable<Call["method"]>;
  body?: unknown;
}

/** Sends a change that is one call. With another body it is another change, also after an answer that was lost. */
export function useChange<T>(change: Change, accepted: (data: T) => void): Submit {
  const submit = useSubmit<Change>(async (intent, { path, method, body }) => {
    accepted((await call<T>(path, { method, body, intent })).data);
  });
  return { ...submit, send: () => submit.send(change) };
}
