const short = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "numeric",
  minute: "2-digit",
});
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** A time to come, in the viewer's time zone, which its tooltip names. */
export function Moment({ value }: { value: string }) {
  const time = new Date(value);
  return (
    <time datetime={value} title={`${exact.format(time)} (${value})`}>
      {short.format(time)}
    </time>
  );
}
