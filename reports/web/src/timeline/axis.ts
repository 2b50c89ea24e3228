// The axis of time above a picture.
import { ticks } from "../parts/bars";
import type { Palette } from "./palette";
import type { Part } from "./rows";

const units: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

/** A time of the step in seconds, as exact as a picture of `length` nanoseconds needs. */
export function moment(ns: number, length: number): string {
  const digits = Math.min(9, Math.max(2, Math.ceil(-Math.log10(length / 1e9)) + 3));
  return `${(ns / 1e9).toFixed(digits)} s`;
}

function offset(ns: number, step: number): string {
  const [scale, unit] = units.find(([scale]) => step >= scale) ?? units[3];
  return `+${Number((ns / scale).toFixed(3))} ${unit}`;
}

/** Draws ticks. Where they are close together, those after the first count from it. */
export function drawAxis(context: CanvasRenderingContext2D, part: Part, x: number, y: number, width: number, rows: number, colors: Palette): void {
  const length = part.end - part.start;
  const times = ticks(part.start, part.end, Math.max(2, Math.floor(width / 110)));
  const step = times.length > 1 ? times[1] - times[0] : length;
  const close = step < 1e8 && part.start > 20 * step;
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  times.forEach((time, i) => {
    const at = Math.round(x + ((time - part.start) / length) * width);
    context.fillStyle = colors.line;
    context.fillRect(at, y - 5, 1, rows + 5);
    const text = close && i > 0 ? offset(time - times[0], step) : close ? moment(time, step) : axisTime(time, step);
    context.fillStyle = colors.soft;
    if (at + 4 + context.measureText(text).width <= x + width) context.fillText(text, at + 4, y - 6);
  });
}

function axisTime(time: number, step: number): string {
  if (time === 0) return "0";
  const [scale, unit] = units.find(([scale]) => step >= scale * 0.05) ?? units[3];
  return `${Number((time / scale).toFixed(3))} ${unit}`;
}
