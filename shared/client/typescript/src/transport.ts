import type { CallOptions, Method } from "./types.js";

/** The untyped form of a call, which the parts of the client share. */
export interface AnyInit extends CallOptions {
  params?: { path?: object; query?: object; header?: object };
  body?: unknown;
  accept?: string;
  dryRun?: boolean;
}

/** What the parts of the client use. */
export interface Transport {
  attempts: number;
  sleep: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
  /** Sends a call and returns the decoded answer, or the stream of its bytes if accept is not JSON. */
  call: (method: Method, path: string, init?: AnyInit) => Promise<unknown>;
}
