// How wrong one quantity may be before another choice is better.
import { h, name } from "../dom";
import { section } from "../parts/section";
import { table } from "../parts/table";
import type { Json } from "../result";
import { listed } from "./words";

interface Flip {
  against: "sites" | "plans";
  quantity: string;
  factor: number | null;
  then_better: string | null;
}

/** The ends of the search for break-evens (sim/search/break_even.h). */
const least = 0.25;
const most = 4;

const place = (factor: number): string =>
  `${((Math.log(factor / least) / Math.log(most / least)) * 100).toFixed(2)}%`;

/** Returns a factor on a logarithmic scale around the value that was assumed. */
function scale(factor: number): HTMLElement {
  const now = h("i", { style: `left:${place(1)}` });
  const [left, right] = factor < 1 ? [factor, 1] : [1, factor];
  const span = h("span", { style: `left:${place(left)};right:calc(100% - ${place(right)})` });
  return h("div", { class: "factor", "aria-hidden": "true" }, span, now, h("b", { style: `left:${place(factor)}` }));
}

function change(factor: number): string {
  const percent = Math.abs(factor - 1) * 100;
  return `×${factor.toFixed(2)} (${percent.toFixed(percent < 10 ? 1 : 0)} % ${factor < 1 ? "less" : "more"})`;
}

interface Found extends Flip {
  factor: number;
}

const found = (flip: Flip): flip is Found => flip.factor !== null;
const distance = (flip: Found): number => Math.abs(Math.log(flip.factor));

function flipTable(flips: Found[]): HTMLElement {
  return table<Found>(
    [
      { title: "If this were", value: (flip) => flip.quantity },
      { title: "Change", value: distance, show: (flip) => change(flip.factor), number: true },
      { title: "¼× to 4×", value: distance, show: (flip) => scale(flip.factor) },
      { title: "Then better", value: (flip) => flip.then_better, show: (flip) => name(flip.then_better) },
    ],
    flips.sort((a, b) => distance(a) - distance(b)),
    { sortable: false },
  );
}

/** Returns what would change a choice, and in a sentence what would not. */
function choice(title: string, flips: Flip[], other: string): HTMLElement[] {
  if (flips.length === 0) return [];
  const changing = flips.filter(found);
  const others = flips.filter((flip) => !found(flip)).map((flip) => [name(flip.quantity)]);
  const parts: HTMLElement[] = [h("h3", {}, title)];
  if (changing.length > 0) parts.push(flipTable(changing));
  if (others.length > 0)
    parts.push(h("p", { class: "soft" }, `Between a quarter and four times, no change of `, ...listed(others, "or"), ` makes another ${other} better.`));
  return parts;
}

/** Returns the section; null where there is nothing to compare with. */
export function overturn(json: Json): HTMLElement | null {
  const flips: Flip[] = json.flips;
  if (flips.length === 0) return null;
  const parts = [
    ...choice("Another offer, if the hardware of this one was judged wrongly", flips.filter((flip) => flip.against === "sites"), "offer"),
    ...choice("Another plan on this offer", flips.filter((flip) => flip.against === "plans"), "plan"),
  ];
  return section("What would overturn it", "How far one quantity may be off before another choice is better.", ...parts);
}
