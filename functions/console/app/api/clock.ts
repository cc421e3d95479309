// The service's clock, so that ages and durations are true on a computer whose clock is wrong.

/** Date headers have no fractions of a second. */
const resolution = 1_000;

/** The service's clock is ahead of the browser's by at least low and at most high, in milliseconds. */
let low = -Infinity;
let high = Infinity;

/** Learns from a response's Date header. The times are the browser's, before the call and after its response. */
export function learnTime(date: string | null, sent: number, received: number): void {
  const time = Date.parse(date ?? "");
  if (Number.isNaN(time)) {
    return;
  }
  const from = time - received;
  const to = time + resolution - sent;
  const changed = from > high || to < low; // the browser's clock was set in between
  low = changed ? from : Math.max(low, from);
  high = changed ? to : Math.min(high, to);
}

/** How far the service's clock is ahead of the browser's, in milliseconds. It is 0 if both may be the same. */
export function clockOffset(): number {
  return low <= 0 && high >= 0 ? 0 : (low + high) / 2;
}

/** The time of the service's clock, in milliseconds since 1970. */
export const serverNow = (): number => Date.now() + clockOffset();
