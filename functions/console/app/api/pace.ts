// How often the console asks the service.

import type { CallError } from "./errors";

/** The time between calls for what is changing, and for a hidden tab, in milliseconds. */
export const quickPace = 400;
export const hiddenPace = 60_000;

/** How long after an action the console asks quickly, in milliseconds. */
export const alertTime = 10_000;

const longest = 30_000;
const longestRequested = 60_000;

/** How long to wait after an answer with Retry-After, in milliseconds. A proxy may ask for days. */
export const requestedPause = (seconds: number): number => Math.min(seconds * 1_000, longestRequested);

/** How long to wait after calls in a row that failed, in milliseconds. What will fail again is asked for seldom. */
export function pauseAfter(failures: number, error: CallError): number {
  if (!error.temporary) {
    return longest;
  }
  const pause = Math.min(1_000 * 2 ** Math.min(failures - 1, 5), longest);
  return Math.max(pause, requestedPause(error.retryAfter));
}
