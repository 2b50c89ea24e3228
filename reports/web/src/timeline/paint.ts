// Draws rows on canvas. What is narrower than a pixel is added up, so that a column shows the share of its time in
// which each kind of work runs: idle time stays visible however much lies in one pixel.
import { batches, firstAfter, slotDepth, type Timeline } from "./data";
import type { Palette } from "./palette";
import type { LevelRow, Part, SpanRow } from "./rows";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** From this width on, in pixels of the device, a span has a rectangle of its own. */
const ownWidth = 1;
/** From these widths on, in pixels of the page, its beginning is marked and it has its name. */
const apartWidth = 5;
const namedWidth = 22;
/** The width of a moment. */
const markWidth = 1.5;
/** A column that is busier than this is drawn full. */
const full = 0.999;

export class Painter {
  private shares = new Float32Array(0);
  private image: ImageData | null = null;
  private narrow = false; // whether the row has spans without a rectangle
  private readonly widths = new Map<string, number>(); // of texts
  /** Whether spans have their names, which take longer to draw than all else. */
  names = true;

  private readonly kinds: number;
  private readonly moments: boolean; // whether spans are marks, which no zoom makes wide

  constructor(private readonly timeline: Timeline) {
    this.kinds = timeline.form.kinds.length;
    this.moments = !timeline.form.ground;
  }

  spans(context: CanvasRenderingContext2D, row: SpanRow, part: Part, box: Box, colors: Palette): void {
    const ratio = context.getTransform().a;
    const width = Math.max(1, Math.round(box.width * ratio));
    const wide = this.collect(row, part, width);
    if (this.narrow) this.columns(context, box, width, ratio, colors);
    else {
      context.fillStyle = colors.idle;
      context.fillRect(box.x, box.y, box.width, box.height);
    }
    this.rectangles(context, wide, part, box, colors);
  }

  // Adds narrow spans to the columns that they lie in and returns the wide ones.
  private collect(row: SpanRow, part: Part, width: number): number[] {
    const { start, end, kind } = this.timeline.spans;
    const scale = width / (part.end - part.start);
    const size = width * this.kinds;
    if (this.shares.length < size) this.shares = new Float32Array(size);
    this.shares.fill(0, 0, size);
    this.narrow = false;
    const wide: number[] = [];
    for (const lane of row.lanes) {
      for (let i = firstAfter(this.timeline, lane, part.start); i < lane.last && start[i] < part.end; ++i) {
        const left = (start[i] - part.start) * scale;
        const right = (end[i] - part.start) * scale;
        if (this.moments || right - left >= ownWidth) wide.push(i);
        else this.share(left, right, kind[i], width);
      }
    }
    return wide;
  }

  private share(left: number, right: number, kind: number, width: number): void {
    this.narrow = true;
    const column = Math.max(0, Math.floor(left));
    if (column >= width) return;
    this.shares[column * this.kinds + kind] += Math.min(right, column + 1) - Math.max(left, column);
    if (right > column + 1 && column + 1 < width) this.shares[(column + 1) * this.kinds + kind] += right - column - 1;
  }

  // A hundred thousand rectangles would take a tenth of a second; pixels take as long for any number of spans.
  private columns(context: CanvasRenderingContext2D, box: Box, width: number, ratio: number, colors: Palette): void {
    const height = Math.max(1, Math.round(box.height * ratio));
    if (this.image?.width !== width || this.image.height !== height) this.image = context.createImageData(width, height);
    const pixels = new Uint32Array(this.image.data.buffer).fill(colors.pixel(colors.idle));
    const fills = colors.kinds.map(colors.pixel);
    for (let column = 0; column < width; ++column) {
      let busy = 0;
      let y = height;
      for (let kind = 0; kind < this.kinds; ++kind) {
        const share = this.shares[column * this.kinds + kind];
        if (share === 0) continue;
        busy += share;
        const top = busy > full ? 0 : Math.round(height * (1 - busy));
        for (; y > top; --y) pixels[(y - 1) * width + column] = fills[kind];
      }
    }
    context.putImageData(this.image, Math.round(box.x * ratio), Math.round(box.y * ratio));
  }

  private rectangles(context: CanvasRenderingContext2D, wide: number[], part: Part, box: Box, colors: Palette): void {
    const { start, end, kind } = this.timeline.spans;
    const scale = box.width / (part.end - part.start);
    const least = this.moments ? markWidth : 0.5;
    let last = -1;
    for (const i of wide) {
      const left = Math.max(0, (start[i] - part.start) * scale);
      const right = Math.min(box.width, (end[i] - part.start) * scale);
      if (kind[i] !== last) context.fillStyle = colors.kinds[(last = kind[i])];
      context.fillRect(box.x + left, box.y, Math.max(least, right - left), box.height);
    }
    this.seams(context, wide, part, box, colors);
    if (this.names && box.height >= 13) this.writeNames(context, wide, part, box, colors);
  }

  // Marks where a span begins, in a tint of its colour: idle time is grey.
  private seams(context: CanvasRenderingContext2D, wide: number[], part: Part, box: Box, colors: Palette): void {
    const { start, end } = this.timeline.spans;
    const scale = box.width / (part.end - part.start);
    context.fillStyle = colors.card;
    context.globalAlpha = 0.55;
    for (const i of wide)
      if ((end[i] - start[i]) * scale > apartWidth && start[i] > part.start) context.fillRect(box.x + (start[i] - part.start) * scale, box.y, 1, box.height);
    context.globalAlpha = 1;
  }

  private writeNames(context: CanvasRenderingContext2D, wide: number[], part: Part, box: Box, colors: Palette): void {
    const { start, end, kind } = this.timeline.spans;
    const scale = box.width / (part.end - part.start);
    context.textBaseline = "middle";
    context.textAlign = "center";
    for (const i of wide) {
      const left = Math.max(0, (start[i] - part.start) * scale);
      const right = Math.min(box.width, (end[i] - part.start) * scale);
      if (right - left < namedWidth) continue;
      context.fillStyle = colors.kindTexts[kind[i]];
      this.write(context, i, box.x + (left + right) / 2, box.y + box.height / 2 + 0.5, right - left - 6);
    }
  }

  // Writes as much of name and micro-batch as fits.
  private write(context: CanvasRenderingContext2D, i: number, x: number, y: number, width: number): void {
    const { spans, names } = this.timeline;
    const name = names[spans.name[i]];
    const batch = spans.depth[i] === slotDepth ? batches(spans, i) : "";
    for (const text of batch ? [`${name} ${batch}`, batch] : [name])
      if (this.widthOf(context, text) <= width) return context.fillText(text, x, y);
  }

  private widthOf(context: CanvasRenderingContext2D, text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) this.widths.set(text, (width = context.measureText(text).width));
    return width;
  }

  levels(context: CanvasRenderingContext2D, row: LevelRow, part: Part, box: Box, colors: Palette): void {
    context.fillStyle = colors.idle;
    context.fillRect(box.x, box.y + box.height - 1, box.width, 1);
    const width = Math.ceil(box.width);
    const below = new Float32Array(width);
    row.counter.series.forEach((_, series) => {
      const means = columnMeans(row, series, part, width);
      context.fillStyle = colors.color(row.colors[series % row.colors.length]);
      for (let column = 0; column < width; ++column) {
        const height = (means[column] / row.most) * (box.height - 2);
        if (!(height > 0)) continue;
        context.fillRect(box.x + column, box.y + box.height - below[column] - height, 1, height);
        below[column] += height;
      }
    });
  }
}

/** Returns the mean of a series over the time of each column. */
function columnMeans(row: LevelRow, series: number, part: Part, width: number): Float32Array {
  const { time } = row.counter;
  const values = row.counter.values[series];
  const scale = width / (part.end - part.start);
  const means = new Float32Array(width);
  for (let i = 0; i < time.length; ++i) {
    const until = i + 1 < time.length ? time[i + 1] : part.end;
    if (until <= part.start || time[i] >= part.end || values[i] === 0) continue;
    const left = Math.max(0, (time[i] - part.start) * scale);
    const right = Math.min(width, (until - part.start) * scale);
    for (let column = Math.floor(left); column < right; ++column)
      means[column] += values[i] * (Math.min(right, column + 1) - Math.max(left, column));
  }
  return means;
}
