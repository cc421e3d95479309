import type { ComponentChildren } from "preact";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** The column has only buttons, and its heading is for assistive technology. */
  actions?: boolean;
}

/**
 * A table whose rows become cards on a narrow page. The roles are explicit because browsers take them from a table that
 * is laid out otherwise.
 */
export function RecordTable<T>(props: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
}) {
  const { label, columns, rows, id } = props;
  return (
    <div class="records-frame">
      <table class="table records" role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.head} role="columnheader" scope="col">
                {column.actions ? <span class="visually-hidden">{column.head}</span> : column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={id(row)} role="row">
              {columns.map((column) => (
                <td
                  key={column.head}
                  role="cell"
                  data-head={column.actions ? undefined : column.head}
                  class={column.actions ? "row-actions" : undefined}
                >
                  {column.actions ? <div class="actions">{column.cell(row)}</div> : column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
