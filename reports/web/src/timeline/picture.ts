// A timeline on canvas: rows of spans and levels below an axis, and the span that is pointed at or chosen.
import { h } from "../dom";
import type { Page } from "../view";
import { drawAxis } from "./axis";
import { firstAfter, type Lane, type Timeline } from "./data";
import { Painter } from "./paint";
import { palette, type Palette } from "./palette";
import type { LevelRow, Row, SpanRow } from "./rows";
import { tipOf } from "./tip";
import type { Viewport } from "./viewport";

const axisHeight = 26;
const gap = 3;
/** Rows from this height on have their labels, which take so much above them. */
const labelledHeight = 9;
const labelHeight = 17;
/** Rows that take longer, in ms, leave out names while they move, and have them again when nothing moved for so long. */
const mostForNames = 6;
const stillAfter = 120;
const touchWidth = 4; // pixels around the pointer in which a narrow span is found

export class Picture {
  readonly canvas = h("canvas", { tabindex: 0, role: "application" });
  readonly element: HTMLElement;
  private readonly mark = h("div", { class: "mark" });
  private readonly tip = h("div", { class: "tip" });
  private rows: Row[] = [];
  private tops: number[] = [];
  private colors: Palette;
  private width = 0;
  private gutter = 0;
  private above = 0;
  private waits = false;
  private rowsTook = 0; // ms, with their names
  private still = 0; // the timer of the end of a movement
  /** The chosen span; -1: none. */
  chosen = -1;
  private shown = -1;

  constructor(
    private readonly page: Page,
    private readonly timeline: Timeline,
    readonly viewport: Viewport,
    private readonly painter: Painter,
    label: string,
  ) {
    this.canvas.setAttribute("aria-label", label);
    this.element = h("div", { class: "picture" }, this.canvas, this.mark, this.tip);
    this.colors = palette(page, timeline.form.kinds);
    page.themed(() => {
      this.colors = palette(page, timeline.form.kinds);
      this.redraw();
    });
    new ResizeObserver(() => this.resize()).observe(this.element);
    viewport.onChange(() => {
      this.hide();
      this.move();
    });
  }

  show(rows: Row[]): void {
    this.rows = rows;
    this.chosen = -1;
    this.hide();
    this.resize();
  }

  // Labels stand beside their rows, or above them where they would take too much of the width.
  private layOut(): void {
    const longest = Math.max(0, ...this.rows.map((row) => (row.height < labelledHeight ? 0 : row.label.length)));
    const beside = longest && Math.round(14 + longest * 6.6);
    this.above = beside > Math.max(120, this.width * 0.3) ? labelHeight : 0;
    this.viewport.gutter = this.gutter = this.above ? 0 : beside;
    let top = axisHeight;
    this.tops = this.rows.map((row) => {
      const own = top + this.above;
      top = own + row.height + gap;
      return own;
    });
    this.element.style.height = `${top}px`;
  }

  private resize(): void {
    this.width = this.element.clientWidth;
    this.layOut();
    const { clientWidth, clientHeight } = this.element;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.hide();
    this.draw();
  }

  // Where names would keep a movement from being smooth, they follow when it ends.
  private move(): void {
    if (this.rowsTook > mostForNames) {
      this.painter.names = false;
      window.clearTimeout(this.still);
      this.still = window.setTimeout(() => {
        this.painter.names = true;
        this.redraw();
      }, stillAfter);
    }
    this.redraw();
  }

  redraw(): void {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.draw();
    });
  }

  private draw(): void {
    const context = this.canvas.getContext("2d");
    const width = this.width - this.gutter;
    if (!context || width < 10) return;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.canvas.height / ratio);
    context.font = `12px ${this.colors.font}`;
    const rowsHeight = this.element.clientHeight - axisHeight;
    drawAxis(context, this.timeline.form, this.viewport, this.gutter, axisHeight, width, rowsHeight, this.colors);
    context.font = `11px ${this.colors.font}`;
    const begin = performance.now();
    this.rows.forEach((row, i) => this.drawRow(context, row, { x: this.gutter, y: this.tops[i], width, height: row.height }));
    if (this.painter.names) this.rowsTook = performance.now() - begin;
    this.drawChosen(context);
  }

  private drawRow(context: CanvasRenderingContext2D, row: Row, box: { x: number; y: number; width: number; height: number }): void {
    if (row.kind === "spans") this.painter.spans(context, row, this.viewport, box, this.colors);
    else this.painter.levels(context, row, this.viewport, box, this.colors);
    if (row.height < labelledHeight) return;
    context.fillStyle = this.colors.soft;
    context.textAlign = this.above ? "left" : "right";
    context.textBaseline = "middle";
    if (this.above) context.fillText(row.label, 0, box.y - this.above / 2);
    else context.fillText(row.label, this.gutter - 8, box.y + box.height / 2 + 0.5);
  }

  private drawChosen(context: CanvasRenderingContext2D): void {
    const box = this.boxOf(this.chosen);
    if (!box) return;
    context.strokeStyle = this.colors.text;
    context.lineWidth = 2;
    context.strokeRect(box.left, box.top - 1, Math.max(2, box.width), box.height + 2);
  }

  timeAt(x: number): number {
    const share = (x - this.gutter) / (this.width - this.gutter);
    return this.viewport.start + Math.min(1, Math.max(0, share)) * this.viewport.length;
  }

  timeOf(pixels: number): number {
    return (pixels / (this.width - this.gutter)) * this.viewport.length;
  }

  rowAt(y: number): Row | null {
    const found = this.tops.findIndex((top, i) => y >= top && y < top + this.rows[i].height + gap);
    return found < 0 ? null : this.rows[found];
  }

  /** Returns the span at a place; -1: none. */
  spanAt(x: number, y: number): number {
    const row = this.rowAt(y);
    if (!row || row.kind !== "spans" || x < this.gutter) return -1;
    const near = this.timeOf(touchWidth);
    const time = this.timeAt(x);
    let best = -1;
    let distance = near;
    const { start, end } = this.timeline.spans;
    for (const lane of row.lanes)
      for (let i = firstAfter(this.timeline, lane, time - near); i < lane.last && start[i] < time + near; ++i) {
        const away = Math.max(start[i] - time, time - end[i], 0);
        if (away === 0) return i;
        if (away < distance) [best, distance] = [i, away];
      }
    return best;
  }

  private boxOf(i: number): { left: number; top: number; width: number; height: number } | null {
    const row = i < 0 ? -1 : this.rows.findIndex((one) => one.kind === "spans" && one.lanes.some((lane) => i >= lane.first && i < lane.last));
    if (row < 0) return null;
    const scale = (this.width - this.gutter) / this.viewport.length;
    const left = Math.max(0, (this.timeline.spans.start[i] - this.viewport.start) * scale);
    const right = Math.min(this.width - this.gutter, (this.timeline.spans.end[i] - this.viewport.start) * scale);
    if (right < left) return null;
    return { left: this.gutter + left, top: this.tops[row], width: right - left, height: this.rows[row].height };
  }

  /** Points at a place: names what is there. */
  point(x: number, y: number): void {
    const row = this.rowAt(y);
    if (row?.kind === "levels" && x >= this.gutter) return this.pointLevels(row, x, y);
    const span = this.spanAt(x, y);
    if (span < 0) return this.hide();
    this.markSpan(span, x);
  }

  private markSpan(span: number, x: number): void {
    const box = this.boxOf(span);
    if (!box) return this.hide();
    if (span !== this.shown) {
      const { title, rows } = this.timeline.form.describe(this.timeline, span);
      this.tip.replaceChildren(...(tipOf(title, rows) as Node[]));
      this.shown = span;
    }
    Object.assign(this.mark.style, { display: "block", left: `${box.left}px`, top: `${box.top}px`, width: `${Math.max(2, box.width)}px`, height: `${box.height}px` });
    this.placeTip(x, box.top + box.height);
  }

  private pointLevels(row: LevelRow, x: number, y: number): void {
    this.hide();
    const time = this.timeAt(x);
    const { counter } = row;
    let at = 0;
    while (at + 1 < counter.time.length && counter.time[at + 1] <= time) ++at;
    const values = counter.series.map((series, i): [string, string] => [series, row.format(counter.values[i][at] ?? 0)]);
    this.tip.replaceChildren(...(tipOf(row.label, [["at", this.timeline.form.moment(time, this.timeOf(1))], ...values]) as Node[]));
    this.placeTip(x, y + 12);
  }

  private placeTip(x: number, below: number): void {
    this.tip.style.display = "block";
    const left = Math.min(Math.max(0, x + 12), this.width - this.tip.offsetWidth - 2);
    Object.assign(this.tip.style, { left: `${Math.max(0, left)}px`, top: `${below + 8}px` });
  }

  hide(): void {
    this.shown = -1;
    this.mark.style.display = this.tip.style.display = "none";
  }

  /** Chooses a span, shows it and says what it is. */
  choose(span: number): void {
    this.chosen = span;
    this.redraw();
    if (span < 0) return this.hide();
    const { start, end } = this.timeline.spans;
    if (start[span] < this.viewport.start || end[span] > this.viewport.end) {
      const length = Math.max(this.viewport.length, (end[span] - start[span]) * 1.2);
      const middle = (start[span] + end[span]) / 2;
      this.viewport.show(middle - length / 2, middle + length / 2);
    }
    const box = this.boxOf(span);
    if (box) this.markSpan(span, box.left + Math.min(box.width / 2, 40));
    const { title, rows } = this.timeline.form.describe(this.timeline, span);
    this.page.announce([title, ...rows.map(([key, value]) => `${key} ${value}`)].join(", "));
  }

  /** Shows 1 / factor of the time, around the chosen span where it is shown. */
  zoom(factor: number): void {
    const { start, end } = this.timeline.spans;
    const middle = this.chosen < 0 ? -1 : (start[this.chosen] + end[this.chosen]) / 2;
    const seen = middle > this.viewport.start && middle < this.viewport.end;
    this.viewport.zoom(factor, seen ? middle : undefined);
  }

  /** Chooses the next span of the row (by 1 or -1), or the first one that is shown. */
  step(by: number): void {
    const lane = this.laneOf(this.chosen) ?? this.spanRows()[0]?.lanes[0];
    if (!lane) return;
    const next = this.chosen < 0 ? firstAfter(this.timeline, lane, this.viewport.start) : this.chosen + by;
    this.choose(Math.min(lane.last - 1, Math.max(lane.first, next)));
  }

  /** Chooses the span at the same time in the row above (-1) or below (1). */
  stepRow(by: number): void {
    const rows = this.spanRows();
    const at = rows.findIndex((row) => row.lanes.some((lane) => lane === this.laneOf(this.chosen)));
    if (at < 0) return this.step(0);
    const lane = rows[Math.min(rows.length - 1, Math.max(0, at + by))].lanes[0];
    const time = (Math.max(this.timeline.spans.start[this.chosen], this.viewport.start) + Math.min(this.timeline.spans.end[this.chosen], this.viewport.end)) / 2;
    this.choose(Math.min(lane.last - 1, firstAfter(this.timeline, lane, time)));
  }

  private spanRows(): SpanRow[] {
    return this.rows.filter((row): row is SpanRow => row.kind === "spans");
  }

  private laneOf(span: number): Lane | undefined {
    if (span < 0) return undefined;
    return this.spanRows().flatMap((row) => row.lanes).find((lane) => span >= lane.first && span < lane.last);
  }
}
