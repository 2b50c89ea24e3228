// Where the width of an interval comes from, and what would narrow it.
import { h } from "../dom";
import { percent } from "../format";
import type { Json } from "../result";
import { amount, table } from "./table";

/** Returns the sources of the interval by their share of the variance, with what would make each certain. */
export function sourcesTable(parts: Json[]): HTMLElement {
  return table<Json>(
    [
      { title: "Source", value: (row) => row.source },
      amount("Of the variance", (row) => row.share, percent),
      { title: "To measure", value: (row) => row.measurement, show: (row) => row.measurement ?? "", wide: true },
      { title: "Interval then", value: (row) => row.half_width_after, show: (row) => (row.half_width_after ? `± ${percent(row.half_width_after)}` : ""), number: true },
    ],
    parts,
    { caption: parts.some((part) => part.source === "what is left") ? "What is left: by how much measurements differ from what their components add up to." : undefined },
  );
}

/** Returns the sentence about steps that were measured and what they leave, or nothing. */
export const leftSentence = (interval: Json): HTMLElement | null =>
  interval?.left_rows ? h("p", { class: "soft" }, `What is left between predictions and measured steps is taken from ${interval.left_rows}.`) : null;
