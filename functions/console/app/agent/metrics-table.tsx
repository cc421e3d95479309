import { useState } from "preact/hooks";
import { type Aligned, curves, formatMoment } from "./curves";

/** The values of the curves as a table, for those who do not use the charts. It is built when it is opened. */
export function ValuesTable({ aligned }: { aligned: Aligned }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="card values" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Values as a table</summary>
      {open ? <Values aligned={aligned} /> : null}
    </details>
  );
}

function Values({ aligned }: { aligned: Aligned }) {
  const rows = aligned.times
    .map((time, i) => ({ time, values: curves.map((curve) => aligned.values[curve.name][i] ?? null) }))
    .filter((row) => row.values.some((value) => value !== null))
    .reverse();
  if (rows.length === 0) {
    return <p class="body quiet">No data in this window.</p>;
  }
  return (
    <div class="table-scroll" role="region" aria-label="Values of the curves" tabIndex={0}>
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Interval from</th>
            {curves.map((curve) => (
              <th scope="col" key={curve.name}>
                {curve.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ time, values }) => (
            <tr key={time}>
              <th scope="row">
                <time datetime={new Date(time * 1_000).toISOString()}>{formatMoment(time)}</time>
              </th>
              {curves.map((curve, i) => (
                <td key={curve.name} class="number nowrap">
                  {values[i] === null || values[i] === undefined ? "no data" : curve.format(values[i])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
