// A trace of a rank, as a profiler records it, next to the prediction of its step.
import { append, h } from "../dom";
import { duration, grouped, percent, signedPercent } from "../format";
import { basis } from "../parts/basis";
import { figures } from "../parts/figures";
import { errorBars, errorTable } from "../parts/measured";
import { answer, foldedSection, notice, section } from "../parts/section";
import { amount, table } from "../parts/table";
import type { Json, Result } from "../result";
import type { View } from "../view";
import { modelName } from "./subject";

const productOf = (row: Json): string => `${row.name} ${row.kind}`;
const shapeOf = (row: Json): string => `${row.groups > 1 ? `${grouped(row.groups)} × ` : ""}${grouped(row.m)} × ${grouped(row.n)} × ${grouped(row.k)}`;
const rateOf = (row: Json, seconds: number): string => (seconds > 0 ? `${grouped(row.flops / seconds / 1e12)} TFLOP/s` : "");

const tiles = (comparison: Json): HTMLElement =>
  figures([
    { name: "Kernels of the trace", value: duration(comparison.kernel_s), note: `${grouped(comparison.kernels)} of them` },
    { name: "Matched", value: percent(comparison.matched_s / comparison.kernel_s), note: "of their time is a kernel of the prediction" },
    { name: "Placed by neighbors", value: percent(comparison.placed_s / comparison.kernel_s), note: "of their time, by the kernels around it" },
    { name: "In another order", value: percent(comparison.reordered_s / comparison.kernel_s), note: "of their time" },
    { name: "Pipeline rank", value: String(comparison.pipeline_rank), note: comparison.pipeline_rank_source },
  ]);

const worstTable = (rows: Json[]): HTMLElement =>
  table<Json>(
    [
      { title: "What", value: (row) => row.what },
      amount("Predicted", (row) => row.predicted_s, duration),
      amount("Measured", (row) => row.measured_s, duration),
      amount("Difference", (row) => row.measured_s - row.predicted_s, duration),
      { title: "What to try", value: (row) => row.advice, wide: true },
    ],
    rows,
  );

const gemmTable = (rows: Json[]): HTMLElement =>
  table<Json>(
    [
      { title: "GEMM", value: productOf },
      { title: "Shape", value: shapeOf },
      amount("Count", (row) => row.count, grouped),
      { title: "Predicted", value: (row) => row.predicted_s, show: (row) => `${duration(row.predicted_s)} ${rateOf(row, row.predicted_s)}`, number: true },
      { title: "Measured", value: (row) => row.measured_s, show: (row) => `${duration(row.measured_s)} ${rateOf(row, row.measured_s)}`, number: true },
      amount("Error", (row) => row.predicted_s / row.measured_s - 1, signedPercent),
    ],
    rows,
  );

const unmatchedTable = (rows: Json[]): HTMLElement =>
  table<Json>(
    [
      { title: "Kernel", value: (row) => row.name, wide: true },
      amount("Count", (row) => row.count, grouped),
      amount("Time", (row) => row.seconds, duration),
    ],
    rows,
  );

export const trace: View = {
  kinds: ["compare-trace"],
  title: ({ json }) => `A trace of ${modelName(json.plan)} and its prediction`,
  subtitle: ({ json }) => `${json.comparison.trace}; predicted with profile ${json.comparison.profile}`,
  render({ json }: Result, root: HTMLElement): void {
    const { comparison } = json;
    const [whole] = comparison.totals;
    if (whole) root.append(answer(`Of the ${whole.name}, `, h("b", {}, duration(whole.measured_s)), ` were measured and ${duration(whole.predicted_s)} are predicted: ${signedPercent(whole.error)}.`));
    root.append(...comparison.notes.map((note: string) => notice(false, note)), tiles(comparison));
    append(
      root,
      comparison.worst.length ? section("What differs most", "", worstTable(comparison.worst)) : null,
      section("Predicted and measured", "", errorBars(comparison.totals)),
      comparison.classes.length ? section("By class of kernels", "", errorBars(comparison.classes)) : null,
      comparison.exposed.length ? section("Exposed communication", "Seconds in which no kernel computes.", errorBars(comparison.exposed)) : null,
      comparison.phases.length ? foldedSection("By phase", "", () => errorTable(comparison.phases, "Phase")) : null,
      comparison.layers.length ? foldedSection("By layer", "", () => errorTable(comparison.layers, "Layer")) : null,
      comparison.gemms.length ? foldedSection("GEMMs by shape", "", () => gemmTable(comparison.gemms)) : null,
      comparison.unmatched.length ? foldedSection("Kernels that no predicted one matches", "", () => unmatchedTable(comparison.unmatched)) : null,
      ...basis({ plan: json.plan }),
    );
  },
};
