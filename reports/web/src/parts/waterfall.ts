// A waterfall: from one time to another, a bar for each cause of the difference.
import { h, name, type Child } from "../dom";
import { duration, percent } from "../format";

export interface Cause {
  name: string;
  seconds: number; // added; below zero: taken away
  note?: string;
}

export interface Total {
  name: string;
  seconds: number;
  note?: string;
}

/** Causes below this share of the largest total are one row. */
const least = 0.005;

function bar(from: number, to: number, whole: number, kind: string): HTMLElement {
  const left = Math.min(from, to) / whole;
  const style = `left:${(left * 100).toFixed(3)}%;width:${Math.max(0.15, (Math.abs(to - from) / whole) * 100).toFixed(3)}%`;
  return h("div", { class: "bar fall", "aria-hidden": "true" }, h("span", { class: kind, style }));
}

function row(label: string, note: string | undefined, drawn: HTMLElement, text: string, share: string): Child[] {
  const notes = note ? h("small", {}, name(note)) : null;
  return [
    h("div", { class: "label" }, name(label), notes),
    drawn,
    h("div", { class: "value" }, text, share ? h("small", {}, share) : null),
  ];
}

/** Returns the rows from `first` over the causes to `last`. Shares are of `last`. */
export function waterfall(first: Total, causes: Cause[], last: Total): HTMLElement {
  const limit = least * Math.max(first.seconds, last.seconds);
  const large = causes.filter((cause) => Math.abs(cause.seconds) >= limit);
  const small = causes.filter((cause) => Math.abs(cause.seconds) < limit && cause.seconds !== 0);
  const shown = [...large];
  if (small.length === 1) shown.push(small[0]);
  if (small.length > 1)
    shown.push({ name: `${small.length} smaller`, seconds: small.reduce((sum, cause) => sum + cause.seconds, 0), note: small.map((cause) => cause.name).join(", ") });
  const ends = shown.reduce<number[]>((list, cause) => [...list, list[list.length - 1] + cause.seconds], [first.seconds]);
  const whole = Math.max(...ends, last.seconds);
  const share = (seconds: number): string => percent(seconds / last.seconds);
  const grid = h("div", { class: "bars waterfall" });
  const add = (...children: Child[]): void => grid.append(...(children as Node[]));
  add(...row(first.name, first.note, bar(0, first.seconds, whole, "total"), duration(first.seconds), share(first.seconds)));
  shown.forEach((cause, i) => {
    const text = `${cause.seconds < 0 ? "-" : "+"}${duration(Math.abs(cause.seconds))}`;
    add(...row(cause.name, cause.note, bar(ends[i], ends[i + 1], whole, cause.seconds < 0 ? "minus" : "plus"), text, share(cause.seconds)));
  });
  add(...row(last.name, last.note, bar(0, last.seconds, whole, "total"), duration(last.seconds), "100.0 %"));
  return grid;
}
