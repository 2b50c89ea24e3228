// What the GPU of each pipeline rank holds at its fullest.
import { type Child, h } from "../dom";
import { gigabytes } from "../format";
import type { Json } from "../result";
import { bars, type Part } from "./bars";

/** What memory is used for, in the order of the bars; a rank has the bytes of each. */
export const uses = ["parameters", "gradients", "optimizer", "activations", "temporary", "communication", "reserve"];

const partsOf = (rank: Json): Part[] => uses.map((use) => ({ name: use, value: rank[`${use}_bytes`] ?? 0, color: `memory-${use}` }));

/** Returns stacked bars of all ranks against the capacity; of a measured rank only the peak is known. */
export function rankBars(memory: Json, labelOf = (rank: Json): Child => `rank ${rank.stage}`): HTMLElement {
  const rows = memory.stages.map((rank: Json) => {
    const parts = partsOf(rank);
    return {
      label: labelOf(rank),
      parts: parts.some((part) => part.value > 0) ? parts : [{ name: "peak", value: rank.peak_bytes, color: "accent" }],
      text: h("span", { class: rank.peak_bytes > memory.capacity_bytes ? "bad" : null }, gigabytes(rank.peak_bytes)),
    };
  });
  return bars(rows, { lines: [{ name: "capacity", value: memory.capacity_bytes }], format: gigabytes });
}
