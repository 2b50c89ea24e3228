// Ranges as bars on one scale from zero, against a limit.
import { type Child, h } from "../dom";
import type { Range, Unit } from "./ranges";

export interface Scale {
  unit: Unit;
  unitOf(value: number): Unit;
  end: number;
  limit: number | null;
}

/** Returns the scale of ranges; null where none is known. */
export function scaleOf(ranges: (Range | null)[], limit: number | null, unitOf: (value: number) => Unit): Scale | null {
  const known = ranges.filter((range): range is Range => range !== null && range.middle < Infinity);
  if (known.length === 0) return null;
  const most = Math.max(...known.map((range) => (range.high < Infinity ? range.high : range.middle)), limit ?? 0);
  return { unit: unitOf(Math.min(...known.map((range) => range.middle))), unitOf, end: most * 1.04, limit };
}

const percentOf = (value: number, scale: Scale): string => `${((value / scale.end) * 100).toFixed(2)}%`;

function strip(kind: string, range: Range | null, scale: Scale): Child[] {
  if (!range || range.middle === Infinity) return [];
  const left = percentOf(range.low, scale);
  const width = percentOf(Math.min(range.high, scale.end) - range.low, scale);
  return [
    h("span", { class: kind, style: `left:${left};width:${width}` }),
    h("b", { class: kind, style: `left:${percentOf(range.middle, scale)}` }),
  ];
}

/** Returns the bars of a range and, below it, of a second one; the words beside them say the same. */
export function strips(first: Range | null, second: Range | null, scale: Scale): HTMLElement {
  const line = scale.limit === null ? null : h("i", { style: `left:${percentOf(scale.limit, scale)}` });
  const bars = [...strip("steps", first, scale), ...strip("failing", second, scale), line];
  return h("div", { class: second ? "strips" : "strips single", "aria-hidden": "true" }, ...bars);
}
