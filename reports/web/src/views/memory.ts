// Memory of each pipeline rank: does it fit, what is largest, what would make it fit.
import { append, h, name } from "../dom";
import { gigabytes, signedPercent } from "../format";
import type { Json, Result } from "../result";
import { basis, constantsTable } from "../parts/basis";
import { chart } from "../parts/chart";
import { figures } from "../parts/figures";
import { fitOf, fitTone, fitWords } from "../parts/fit";
import { rankBars, uses } from "../parts/memory";
import { answer, foldedSection, notice, section } from "../parts/section";
import { amount, type Column, pairs, table } from "../parts/table";
import { chance } from "../plan/ranges";
import type { Page, View } from "../view";
import { rolloutMemory } from "./step/rollout";
import { degrees, hardware, line, modelName } from "./subject";

const stageList = (rank: Json): string => (rank.stages.length === 1 ? `stage ${rank.stages[0]}` : `stages ${rank.stages.join(", ")}`);
const rankLabel = (rank: Json): HTMLElement => h("span", {}, `rank ${rank.stage} `, h("small", {}, stageList(rank)));

function overTime(memory: Json, page: Page): HTMLElement | null {
  const levels = memory.timeline;
  if (!levels) return null;
  const rank = memory.stages.find((one: Json) => one.stage === levels.rank) ?? memory.stages[0];
  const fixedParts = ["parameters", "gradients", "optimizer", "reserve"].map((kind) => ({ kind, of: () => rank[`${kind}_bytes`] }));
  const moving = ["activations", "temporary", "communication"].map((kind) => ({ kind, of: (op: Json) => op[`${kind}_bytes`] }));
  const series = [...fixedParts, ...moving]
    .map(({ kind, of }) => ({
      name: kind,
      color: `memory-${kind}`,
      stack: "memory",
      points: levels.ops.map((op: Json, i: number) => [i, of(op)] as [number, number]),
    }))
    .filter((one) => one.points.some(([, bytes]: [number, number]) => bytes > 0));
  const fullest = levels.ops[levels.fullest_op];
  return section(
    `Rank ${levels.rank} over the step`,
    fullest ? `It is fullest in slot ${levels.fullest_op + 1} of ${levels.ops.length}: ${fullest.what}.` : null,
    chart(page, {
      label: `Memory of rank ${levels.rank} slot by slot, stacked by use`,
      x: { title: "slot of the schedule", format: (value) => String(value), zero: true, integer: true },
      y: { title: "memory", format: gigabytes, zero: true },
      series,
      lines: [{ name: "capacity", value: memory.capacity_bytes }],
    }),
  );
}

function advice(memory: Json): HTMLElement | null {
  if (!memory.advice) return null;
  const { fitting, closest, tried } = memory.advice;
  const rows = fitting.length ? fitting : closest ? [closest] : [];
  const lead = fitting.length
    ? `Of ${tried} changes that were tried these fit, the cheapest for the step first.`
    : `None of ${tried} changes that were tried fits; this one is closest.`;
  return section(
    "What would make it fit",
    lead,
    table<Json>(
      [
        { title: "Change", value: (row) => row.set.join(" "), show: (row) => h("code", {}, name(row.set.join("  "))), wide: true },
        amount("Step", (row) => row.step_ratio && row.step_ratio - 1, signedPercent),
        amount("Peak", (row) => row.peak_bytes, gigabytes),
        amount("Fits with", (row) => row.fits_probability, chance),
      ],
      rows,
      { sortable: false },
    ),
  );
}

function ranksTable(memory: Json): HTMLElement {
  const bytes = (title: string, key: string): Column<Json> => amount(title, (row) => row[key], gigabytes);
  return table<Json>(
    [
      { title: "Rank", value: (row) => row.stage },
      bytes("Peak", "peak_bytes"),
      bytes("Free", "free_bytes"),
      ...uses.map((kind) => bytes(kind, `${kind}_bytes`)),
      { title: "At the peak", value: (row) => row.peak_operator, wide: true },
    ],
    memory.stages,
    { rowClass: (row) => (row.stage === memory.fullest_rank ? "best" : null) },
  );
}

export const memory: View = {
  kinds: ["memory"],
  title: (result) => `Memory of ${modelName(result.json.plan)}`,
  subtitle: (result) => line(hardware(result.json.plan), degrees(result.json.plan)),
  render(result: Result, root, page) {
    const { memory: all, plan, rollout, rollout_reason } = result.json;
    const fullest = all.stages.find((rank: Json) => rank.stage === all.fullest_rank) ?? all.stages[0];
    const chanceToFit = fitWords(all);
    const verdicts = { fits: "It fits: the", "at the edge": `At the edge: ${chanceToFit}. The`, "does not fit": "It does not fit: the" };
    append(
      root,
      answer(`${verdicts[fitOf(all)]} fullest GPU, on pipeline rank ${fullest.stage}, needs `, h("b", {}, gigabytes(all.peak_bytes)), ` of its ${gigabytes(all.capacity_bytes)}${fitOf(all) === "at the edge" ? "; measured peaks differ from predicted ones, and by what allocators hold unused" : ""}.`),
      figures([
        { name: "Peak", value: gigabytes(all.peak_bytes), note: `of ${gigabytes(all.capacity_bytes)}${chanceToFit ? `, ${chanceToFit}` : ""}`, tone: fitTone(all) ?? "good" },
        fullest.low_bytes < fullest.high_bytes ? { name: "Between", value: `${(fullest.low_bytes / 1e9).toFixed(1)} and ${gigabytes(fullest.high_bytes)}`, note: "by what is uncertain" } : null,
        { name: fullest.free_bytes < 0 ? "Missing" : "Free", value: gigabytes(Math.abs(fullest.free_bytes)), note: "on the fullest GPU" },
        { name: "Largest there", value: String(fullest.largest ?? "").replace(/^.*, /, "").replace(" ", "\u00a0"), note: String(fullest.largest ?? "").replace(/, .*$/, "") },
      ]),
      section("All ranks", "What each rank's GPU holds at its fullest.", rankBars(all, rankLabel)),
      advice(all),
      rollout_reason ? notice(true, "No engine generates: ", name(rollout_reason), ".") : null,
      rollout ? section("Both halves of a step of reinforcement learning", rollout.fits ? "Both fit." : "They do not fit.", pairs(rolloutMemory(rollout))) : null,
      overTime(all, page),
      foldedSection("Every rank in numbers", "", () => ranksTable(all)),
      all.constants?.length ? foldedSection("What reserves rest on", "", () => constantsTable(all.constants)) : null,
      ...basis({ plan }),
    );
  },
};
