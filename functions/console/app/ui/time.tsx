import { useEffect } from "preact/hooks";
import { clockOffset } from "../api/clock";
import { Store, useStore } from "../store";

const now = new Store<number>(Date.now());
let clocks = 0;
let timer: number | undefined;

/** The service's time, which moves each second while a component shows it. */
export const useNow = (): number => useLocalNow() + clockOffset();

/** The time of the browser's clock, for what began in this page. */
export function useLocalNow(): number {
  const value = useStore(now);
  useEffect(() => {
    clocks++;
    if (clocks === 1) {
      now.set(Date.now());
      timer = setInterval(() => now.set(Date.now()), 1_000);
    }
    return () => {
      clocks--;
      if (clocks === 0) {
        clearInterval(timer);
      }
    };
  }, []);
  return value;
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const sameDay = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const sameYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeStyle: undefined });
const otherYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "long" });

/** A time in the viewer's zone: how long ago while that is short, then the date. The exact value is its tooltip. */
export function Time({ value, date = false }: { value: string | number; date?: boolean }) {
  const time = new Date(value);
  const current = useNow();
  if (Number.isNaN(time.getTime())) {
    return <span>unknown</span>;
  }
  return (
    <time datetime={time.toISOString()} title={`${exact.format(time)} (${time.toISOString()})`} class="nowrap">
      {date ? dateOf(time, current) : ago(time, current)}
    </time>
  );
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

function ago(time: Date, current: number): string {
  const distance = time.getTime() - current;
  const size = Math.abs(distance);
  if (size < 5_000) {
    return "just now";
  }
  if (size < minute) {
    return relative.format(Math.round(distance / 1_000), "second");
  }
  if (size < hour) {
    return relative.format(Math.round(distance / minute), "minute");
  }
  if (size < day) {
    return relative.format(Math.round(distance / hour), "hour");
  }
  return dateOf(time, current);
}

function dateOf(time: Date, current: number): string {
  const today = new Date(current);
  if (time.toDateString() === today.toDateString()) {
    return sameDay.format(time);
  }
  const form = time.getFullYear() === today.getFullYear() ? sameYear : otherYear;
  return form.format(time);
}

/** A length of time in words that fit a table, such as "1.4 s" or "3 min 20 s". */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1_000) {
    return `${Math.max(0, Math.round(milliseconds))} ms`;
  }
  if (milliseconds < 10_000) {
    return `${(milliseconds / 1_000).toFixed(1)} s`;
  }
  const seconds = Math.round(milliseconds / 1_000);
  if (seconds < 60) {
    return `${seconds} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`;
  }
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
