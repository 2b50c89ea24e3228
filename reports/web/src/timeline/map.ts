// The whole in small, with a frame around the part that is shown.
import { h } from "../dom";
import type { Page } from "../view";
import type { Form } from "./data";
import type { Painter } from "./paint";
import { palette } from "./palette";
import type { SpanRow } from "./rows";
import type { Viewport } from "./viewport";

const most = 56; // pixels

export class WholeMap {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas");
  private readonly window = h("div", { class: "window" });

  constructor(
    private readonly page: Page,
    private readonly form: Form,
    private readonly painter: Painter,
    private readonly rows: SpanRow[],
    private readonly viewport: Viewport,
  ) {
    this.element = h("div", { class: "map", role: "img", "aria-label": `The whole ${form.whole}, with the part that is shown` }, this.canvas, this.window);
    this.element.style.height = `${Math.max(20, Math.min(most, rows.length * 3))}px`;
    page.themed(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.element);
    viewport.onChange(() => this.frame());
    this.listen();
  }

  private draw(): void {
    const { clientWidth: width, clientHeight: height } = this.element;
    const context = this.canvas.getContext("2d");
    if (!context || width < 10) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const colors = palette(this.page, this.form.kinds);
    const pitch = height / this.rows.length;
    const part = { start: 0, end: this.viewport.whole };
    this.rows.forEach((row, i) => this.painter.spans(context, row, part, { x: 0, y: i * pitch, width, height: pitch }, colors));
    this.frame();
  }

  private frame(): void {
    const { start, end, whole } = this.viewport;
    this.window.style.left = `${(start / whole) * 100}%`;
    this.window.style.width = `${((end - start) / whole) * 100}%`;
  }

  // A drag inside of the frame moves it; one outside shows the part that it covers.
  private listen(): void {
    let from = -1;
    let moves = false;
    const timeAt = (event: PointerEvent): number => {
      const box = this.element.getBoundingClientRect();
      return ((event.clientX - box.left) / box.width) * this.viewport.whole;
    };
    this.element.addEventListener("pointerdown", (event) => {
      from = timeAt(event);
      moves = this.viewport.length < this.viewport.whole && from > this.viewport.start && from < this.viewport.end;
      this.element.setPointerCapture(event.pointerId);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (from < 0) return;
      const now = timeAt(event);
      if (moves) this.viewport.pan(now - from);
      else this.viewport.show(Math.min(from, now), Math.max(from, now));
      if (moves) from = now;
    });
    for (const end of ["pointerup", "pointercancel"]) this.element.addEventListener(end, () => (from = -1));
  }
}
