import { useNow } from "../ui/time";

const short = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "numeric",
  minute: "2-digit",
});
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const dated = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "numeric",
  minute: "2-digit",
});
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** A time to come, in the viewer's time zone, which its tooltip names. */
export const Moment = ({ value }: { value: string }) => <Exactly value={value} text={short.format(new Date(value))} />;

/** Whether a time has passed, by the clock of the service. */
export const useHasPassed = (value: string | null): boolean => {
  const now = useNow();
  return value !== null && new Date(value).getTime() <= now;
};

/** A time of the last days, such as "9:30 AM" of today, in the viewer's time zone. */
export const ClockTime = ({ value }: { value: string }) => <Exactly value={value} text={clockTime(new Date(value))} />;

/** A time of the last days in the viewer's time zone. The day is named unless it is today. */
export function clockTime(time: Date): string {
  if (Number.isNaN(time.getTime())) {
    return "unknown";
  }
  return (time.toDateString() === new Date().toDateString() ? clock : dated).format(time);
}

function Exactly({ value, text }: { value: string; text: string }) {
  return (
    <time datetime={value} title={`${exact.format(new Date(value))} (${value})`}>
      {text}
    </time>
  );
}
