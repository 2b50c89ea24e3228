// Horizontal bars in rows that share a scale: stacked parts, and intervals with their middle.
import { h, type Child } from "../dom";
import { duration, short } from "../format";

export interface Part {
  name: string;
  value: number;
  /** A colour of style.css: "accent", "memory-optimizer". */
  color: string;
}

/** A line across all bars: a capacity, a deadline. */
export interface Line {
  name: string;
  value: number;
}

export interface BarRow {
  label: Child;
  parts: Part[];
  text: Child;
}

const at = (value: number, low: number, high: number): string =>
  `${Math.min(100, Math.max(0, ((value - low) / (high - low)) * 100)).toFixed(3)}%`;

function lineMarks(lines: Line[], low: number, high: number, format: (value: number) => string): HTMLElement[] {
  return lines.map((line) =>
    h("div", { class: "mark", style: `left:${at(line.value, low, high)}`, title: `${line.name}: ${format(line.value)}` }),
  );
}

/** Returns an entry of a legend; `shape` is that of its mark: a square, a line, a dot. */
export const legendItem = (color: string, text: string, shape: "" | "line" | "dot" = ""): HTMLElement =>
  h("li", {}, h("i", { class: shape || null, style: `--mark:var(--${color})` }), text);

export const lineItem = (line: Line, format: (value: number) => string): HTMLElement => legendItem("bad", `${line.name} ${format(line.value)}`, "line");

export const legend = (...items: HTMLElement[]): HTMLElement => h("ul", { class: "legend" }, ...items);

export interface BarOptions {
  /** The value at the right end; default: the largest row or line. */
  whole?: number;
  lines?: Line[];
  legend?: boolean; // default: where a row has several parts
  format?: (value: number) => string; // of values in tooltips and of lines; default: duration
}

/** Returns rows of stacked bars with a legend. */
export function bars(rows: BarRow[], options: BarOptions = {}): HTMLElement {
  const format = options.format ?? duration;
  const lines = options.lines ?? [];
  const sums = rows.map((row) => row.parts.reduce((sum, part) => sum + Math.max(0, part.value), 0));
  const whole = options.whole ?? Math.max(...sums, ...lines.map((line) => line.value * 1.02), Number.MIN_VALUE);
  const grid = h("div", { class: "bars" });
  const names = new Map<string, string>();
  for (const row of rows) {
    let left = 0;
    const bar = h("div", { class: "bar", "aria-hidden": "true" });
    for (const part of row.parts) {
      if (!(part.value > 0)) continue;
      names.set(part.name, part.color);
      const place = `left:${at(left, 0, whole)};width:${at(part.value, 0, whole)};background:var(--${part.color})`;
      bar.append(h("span", { style: place, title: `${part.name}: ${format(part.value)}` }));
      left += part.value;
    }
    bar.append(...lineMarks(lines, 0, whole, format));
    grid.append(h("div", { class: "label" }, row.label), bar, h("div", { class: "value" }, row.text));
  }
  const items = [...names].map(([name, color]) => legendItem(color, name));
  items.push(...lines.map((line) => lineItem(line, format)));
  const withLegend = options.legend ?? items.length > 1;
  return h("div", {}, grid, withLegend ? legend(...items) : null);
}

export interface IntervalRow {
  label: Child;
  p10: number;
  p50: number;
  p90: number;
  /** A value of its own beside the middle: measured, from components. */
  point?: number | null;
  text: Child;
}

/** Round steps for about `count` ticks between two values. */
export function ticks(low: number, high: number, count: number): number[] {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const list: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) list.push(i * step);
  return list;
}

/** About four ticks, more where that would leave one alone. */
function axisTicks(low: number, high: number): number[] {
  const few = ticks(low, high, 4);
  return few.length > 1 ? few : ticks(low, high, 8);
}

function axisRow(low: number, high: number, format: (value: number) => string): HTMLElement[] {
  const axis = h("div", { class: "axis", "aria-hidden": "true" });
  for (const tick of axisTicks(low, high)) {
    const share = (tick - low) / (high - low);
    const edge = share < 0.08 ? "first" : share > 0.92 ? "last" : null;
    axis.append(h("span", { class: edge, style: `left:${at(tick, low, high)}` }, short(format(tick))));
  }
  return [h("div", { class: "gap" }), axis, h("div", { class: "gap" })];
}

export interface IntervalOptions {
  lines?: Line[];
  format: (value: number) => string;
  /** What the small circle is; needed where a row has a point. */
  pointName?: string;
  /** What the bar and its mark are; default: eight of ten cases, and the median. */
  names?: [string, string];
}

/** Returns rows of intervals (P10 to P90 with the median) over one axis. */
export function intervals(rows: IntervalRow[], options: IntervalOptions): HTMLElement {
  const lines = options.lines ?? [];
  const values = rows.flatMap((row) => [row.p10, row.p90, row.point ?? row.p50]).concat(lines.map((line) => line.value));
  const margin = (Math.max(...values) - Math.min(...values)) * 0.06 || Math.abs(values[0]) * 0.1 || 1;
  const low = Math.max(Math.min(...values) - margin, Math.min(...values) >= 0 ? 0 : -Infinity);
  const high = Math.max(...values) + margin;
  const grid = h("div", { class: "bars" });
  for (const row of rows) {
    const title = `${options.format(row.p10)} to ${options.format(row.p90)}, ${options.format(row.p50)}`;
    const bar = h(
      "div",
      { class: "bar interval", title, "aria-hidden": "true" },
      h("span", { style: `left:${at(row.p10, low, high)};right:${at(low + high - row.p90, low, high)}` }),
      h("div", { class: "mark middle", style: `left:${at(row.p50, low, high)}` }),
      row.point === null || row.point === undefined ? null : h("div", { class: "mark point", style: `left:${at(row.point, low, high)}` }),
      ...lineMarks(lines, low, high, options.format),
    );
    grid.append(h("div", { class: "label" }, row.label), bar, h("div", { class: "value" }, row.text));
  }
  grid.append(...axisRow(low, high, options.format));
  const [range, middle] = options.names ?? ["eight of ten cases", "median"];
  const items = [legendItem("accent-soft", range), legendItem("accent", middle, "line")];
  if (options.pointName) items.push(legendItem("accent", options.pointName, "dot"));
  items.push(...lines.map((line) => lineItem(line, options.format)));
  return h("div", {}, grid, legend(...items));
}
