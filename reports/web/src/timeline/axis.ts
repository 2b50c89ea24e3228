// The axis of time above a picture.
import { ticks } from "../parts/bars";
import { short } from "../format";
import type { Form } from "./data";
import type { Palette } from "./palette";
import type { Part } from "./rows";

/** Draws ticks with their texts. */
export function drawAxis(context: CanvasRenderingContext2D, form: Form, part: Part, x: number, y: number, width: number, rows: number, colors: Palette): void {
  const length = part.end - part.start;
  const times = ticks(part.start, part.end, Math.max(3, Math.floor(width / 110)));
  const texts = form.axis(times, times.length > 1 ? times[1] - times[0] : length, part.start);
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  times.forEach((time, i) => {
    const at = Math.round(x + ((time - part.start) / length) * width);
    context.fillStyle = colors.line;
    context.fillRect(at, y - 5, 1, rows + 5);
    context.fillStyle = colors.soft;
    if (at + 4 + context.measureText(texts[i]).width <= x + width) context.fillText(texts[i], at + 4, y - 6);
  });
}

// A time with three more digits than a distance has.
const written = (time: number, distance: number, unit: string): string =>
  short(time.toFixed(Math.min(9, Math.max(0, 3 - Math.floor(Math.log10(distance)))))) + unit;

/** Returns how times in one unit, " d", are written. */
export const timesIn = (unit: string): Pick<Form, "moment" | "axis"> => ({
  moment: (time, length) => written(time, length, unit),
  axis: (times, step) => times.map((time) => written(time, step, unit)),
});
