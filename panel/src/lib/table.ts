// Rows of a table: their columns, order, search, and CSV.

export interface Column<Row> {
  text: string;
  num?: boolean;
  /** Read to screen readers only: the cell's content explains it to others. */
  hidden?: boolean;
  /** What the column sorts by, and its cell in CSV; without it, it does neither. */
  value?: (row: Row) => string | number | null;
  /** Not sorted by, as where only some of the rows are here. */
  fixed?: boolean;
}

export interface Order {
  by: string;
  down: boolean;
}

/** Figures sort downwards first, words upwards; another click on the same column turns the order. */
export function turned(order: Order | null, column: { text: string; num?: boolean }): Order {
  return { by: column.text, down: order?.by === column.text ? !order.down : Boolean(column.num) };
}

/** Rows in this order; unknown values come last, and equal ones keep their places. */
export function ordered<Row>(rows: Row[], columns: Column<Row>[], order: Order | null): Row[] {
  const value = columns.find(({ text }) => text === order?.by)?.value;
  if (!order || !value) return rows;
  const sign = order.down ? -1 : 1;
  const compare = (a: string | number | null, b: string | number | null) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true }));
  };
  return rows.map((row) => [value(row), row] as const).sort(([a], [b]) => compare(a, b)).map(([, row]) => row);
}

/** Rows of which some cell has each of these words. */
export function found<Row>(rows: Row[], columns: Column<Row>[], search: string): Row[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = columns.map(({ value }) => value?.(row) ?? '').join('\n').toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** Comma-separated values (RFC 4180), as a link. */
export function csvOf<Row>(rows: Row[], columns: Column<Row>[]): string {
  const all = columns.filter(({ value }) => value);
  const lines = [all.map(({ text }) => text), ...rows.map((row) => all.map(({ value }) => String(value?.(row) ?? '')))];
  const text = lines.map((cells) => `${cells.map(cell).join(',')}\r\n`).join('');
  return `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`;
}

/** A cell. A spreadsheet would compute one that begins like a formula, unless it is a number. */
function cell(value: string): string {
  const safe = /^[=+\-@\t]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
