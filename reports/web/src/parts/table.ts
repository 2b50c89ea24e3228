// Tables whose numbers line up, that sort by a click, and whose rows become cards on a narrow screen.
import { h, identifier, type Child } from "../dom";
import { type Maybe, none } from "../format";

export interface Column<Row> {
  title: string;
  /** What the column sorts by. */
  value(row: Row): number | string | null | undefined;
  /** What it shows; default: the value. */
  show?(row: Row): Child;
  /** Right-aligned; default: left. */
  number?: boolean;
  /** Long text that may wrap. */
  wide?: boolean;
}

/** Returns a column of numbers; `format` says what stands where there is none. */
export const amount = <Row>(title: string, value: (row: Row) => Maybe, format: (value: Maybe) => string): Column<Row> => ({
  title,
  value,
  show: (row) => format(value(row)),
  number: true,
});

export interface TableOptions<Row> {
  caption?: string;
  /** The class of a row: best, quiet. */
  rowClass?(row: Row): string | null;
  sortable?: boolean; // default: from four rows on
}

function cell<Row>(column: Column<Row>, row: Row, first: boolean): HTMLElement {
  const value = column.value(row);
  const shown = column.show ? column.show(row) : (value ?? none);
  const kind = column.number ? "number" : column.wide ? "wide" : null;
  const content = typeof shown === "string" && shown ? h("bdi", {}, shown) : shown;
  if (first) return h("th", { scope: "row", class: kind, "data-label": typeof value === "number" && column.title }, content);
  const own = h("td", { class: kind, "data-label": column.title }, content);
  if (own.textContent === none) own.classList.add("none");
  return own;
}

function compare(a: unknown, b: unknown): number {
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Returns the table in a box that scrolls where it does not fit. A column without any value is left out. */
export function table<Row>(columns: Column<Row>[], rows: readonly Row[], options: TableOptions<Row> = {}): HTMLElement {
  columns = columns.filter((column, i) => i === 0 || rows.some((row) => (column.value(row) ?? "") !== ""));
  const body = h("tbody");
  const fill = (ordered: readonly Row[]): void =>
    body.replaceChildren(
      ...ordered.map((row) =>
        h("tr", { class: options.rowClass?.(row) ?? null }, ...columns.map((column, i) => cell(column, row, i === 0))),
      ),
    );
  fill(rows);
  const heads = columns.map((column) => h("th", { scope: "col", class: column.number ? "number" : null }));
  const sort = (i: number): void => {
    const descending = heads[i].getAttribute("aria-sort") === "ascending";
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[i].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const ordered = [...rows].sort((a, b) => compare(columns[i].value(a), columns[i].value(b)));
    fill(descending ? ordered.reverse() : ordered);
  };
  const sortable = options.sortable ?? rows.length > 3;
  heads.forEach((head, i) => {
    const title = columns[i].title.includes(" ") ? columns[i].title : identifier(columns[i].title);
    if (!sortable) return void head.append(title);
    const button = h("button", { type: "button" }, title);
    button.addEventListener("click", () => sort(i));
    head.append(button);
  });
  const caption = options.caption ? h("caption", {}, options.caption) : null;
  const stacked = columns.length > 3 ? "stack" : null;
  return h("div", { class: "scroll" }, h("table", { class: stacked }, caption, h("thead", {}, h("tr", {}, ...heads)), body));
}

/** Returns names with their values, one below the other. */
export function pairs(list: [string, Child][]): HTMLElement {
  return h("dl", { class: "pairs" }, ...list.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
}
