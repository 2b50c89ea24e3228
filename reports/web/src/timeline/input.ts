// Wheel, pointer and keys on a picture.
import type { Picture } from "./picture";

/** A turn of the wheel by this many pixels doubles the scale. */
const wheelDoubles = 240;
const dragStarts = 4; // pixels

export interface InputActions {
  /** Opens what is at a place: a double click. */
  open(x: number, y: number): void;
}

const placeOf = (picture: Picture, event: MouseEvent): [number, number] => {
  const box = picture.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

// A plain turn of the wheel scrolls the page until the picture has the focus.
function wheel(picture: Picture, event: WheelEvent): void {
  const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  const zooms = event.ctrlKey || event.metaKey || document.activeElement === picture.canvas;
  if (!sideways && !zooms) return;
  event.preventDefault();
  const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 33 : 1;
  if (sideways) return picture.viewport.pan(picture.timeOf((event.deltaX || event.deltaY) * pixels));
  // A pinch on a touchpad arrives as small turns with the control key.
  const turns = event.deltaY * pixels * (event.ctrlKey && Math.abs(event.deltaY) < 50 ? 4 : 1);
  picture.viewport.zoom(2 ** (-turns / wheelDoubles), picture.timeAt(placeOf(picture, event)[0]));
}

class Pointers {
  private readonly down = new Map<number, [number, number]>();
  private moved = 0;

  constructor(private readonly picture: Picture) {}

  press(event: PointerEvent): void {
    this.down.set(event.pointerId, placeOf(this.picture, event));
    this.moved = 0;
    this.picture.canvas.setPointerCapture(event.pointerId);
  }

  move(event: PointerEvent): void {
    const now = placeOf(this.picture, event);
    const before = this.down.get(event.pointerId);
    if (!before) return this.picture.point(...now);
    const other = [...this.down].find(([id]) => id !== event.pointerId)?.[1];
    this.moved += Math.abs(now[0] - before[0]);
    if (other) this.pinch(before[0], now[0], other[0]);
    else if (this.moved >= dragStarts) this.picture.viewport.pan(-this.picture.timeOf(now[0] - before[0]));
    this.down.set(event.pointerId, now);
  }

  private pinch(before: number, now: number, other: number): void {
    const factor = Math.max(8, Math.abs(now - other)) / Math.max(8, Math.abs(before - other));
    this.picture.viewport.zoom(factor, this.picture.timeAt(other));
  }

  lift(event: PointerEvent): void {
    const clicked = this.down.delete(event.pointerId) && this.moved < dragStarts && event.type === "pointerup";
    if (clicked) this.picture.choose(this.picture.spanAt(...placeOf(this.picture, event)));
  }
}

export function listen(picture: Picture, actions: InputActions): void {
  const { canvas } = picture;
  const pointers = new Pointers(picture);
  canvas.addEventListener("wheel", (event) => wheel(picture, event), { passive: false });
  canvas.addEventListener("pointerdown", (event) => pointers.press(event));
  canvas.addEventListener("pointermove", (event) => pointers.move(event));
  canvas.addEventListener("pointerup", (event) => pointers.lift(event));
  canvas.addEventListener("pointercancel", (event) => pointers.lift(event));
  canvas.addEventListener("pointerleave", () => picture.hide());
  canvas.addEventListener("dblclick", (event) => actions.open(...placeOf(picture, event)));
}

export interface KeyAction {
  key: string;
  help: string;
  run: () => void;
}

/** Returns what keys do on a picture of the whole of something; `open` and `close` lead to a rank and back. */
export function keyActions(picture: Picture, whole: string, open: () => void, close: () => void): KeyAction[] {
  const { viewport } = picture;
  return [
    { key: "+", help: "timeline: zoom in", run: () => picture.zoom(1.6) },
    { key: "-", help: "timeline: zoom out", run: () => picture.zoom(1 / 1.6) },
    { key: "0", help: `timeline: the whole ${whole}`, run: () => viewport.home() },
    { key: "ArrowLeft", help: "timeline: earlier", run: () => viewport.pan(-viewport.length / 6) },
    { key: "ArrowRight", help: "timeline: later", run: () => viewport.pan(viewport.length / 6) },
    { key: ",", help: "timeline: previous span", run: () => picture.step(-1) },
    { key: ".", help: "timeline: next span", run: () => picture.step(1) },
    { key: "ArrowUp", help: "timeline: the row above", run: () => picture.stepRow(-1) },
    { key: "ArrowDown", help: "timeline: the row below", run: () => picture.stepRow(1) },
    { key: "Enter", help: "timeline: the streams of the chosen rank", run: open },
    { key: "Escape", help: "timeline: back to all ranks", run: close },
  ];
}
