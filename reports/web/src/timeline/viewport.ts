// Which part of a timeline is shown. Pictures that share a viewport move together.

import type { Part } from "./rows";

export class Viewport {
  start: number;
  end: number;
  /** Pixels left of the times, which labels take. */
  gutter = 0;
  private readonly listeners: (() => void)[] = [];

  /** No part is shorter than `shortest`; `first` is the one that is shown at first, and again by home(). */
  constructor(
    readonly whole: number,
    private readonly shortest: number,
    readonly first: Part = { start: 0, end: whole },
  ) {
    this.start = first.start;
    this.end = first.end;
  }

  get length(): number {
    return this.end - this.start;
  }

  /** Calls `listener` whenever another part is shown. */
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  /** Shows from `start` to `end`, as far as they lie within the whole. */
  show(start: number, end: number): void {
    const length = Math.min(this.whole, Math.max(this.shortest, end - start));
    const middle = (start + end) / 2;
    this.start = Math.min(this.whole - length, Math.max(0, middle - length / 2));
    this.end = this.start + length;
    for (const listener of this.listeners) listener();
  }

  /** Shows 1 / factor of the time; the time at `fixed` stays where it is. */
  zoom(factor: number, fixed = (this.start + this.end) / 2): void {
    const length = Math.min(this.whole, Math.max(this.shortest, this.length / factor));
    const share = (fixed - this.start) / this.length;
    this.show(fixed - share * length, fixed + (1 - share) * length);
  }

  pan(time: number): void {
    this.show(this.start + time, this.end + time);
  }

  home(): void {
    this.show(this.first.start, this.first.end);
  }
}
