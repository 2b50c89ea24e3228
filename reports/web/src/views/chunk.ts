// A chunk of a profiled step next to its prediction, kernel by kernel.
import { append, h } from "../dom";
import { duration, grouped, signedPercent } from "../format";
import { basis } from "../parts/basis";
import { errorBars, errorTable } from "../parts/measured";
import { answer, foldedSection, section } from "../parts/section";
import { amount, table } from "../parts/table";
import type { Json, Result } from "../result";
import type { View } from "../view";
import { modelName } from "./subject";

const slotOf = (row: Json): string => `slot ${row.slot}, ${row.name}`;
const productOf = (row: Json): string => `${row.name}, ${row.kind}`;

function inputWords({ inputs }: Json): string {
  const rows = inputs.rows ? "those of the measured rank" : "those of the plan";
  const waits = inputs.waits ? "those of the measured rank" : "predicted";
  return `Of the measurement the prediction was given: rows of experts ${rows}, waits for peers ${waits}.`;
}

function barrierSection(rows: Json[]): HTMLElement | null {
  if (rows.length === 0) return null;
  const list = table<Json>(
    [
      { title: "Slot", value: (row) => row.slot },
      amount("Pairs that follow others", (row) => row.following_s, duration),
      amount("Ranks that begin together", (row) => row.together_s, duration),
      amount("Measured rank", (row) => row.measured_s, duration),
    ],
    rows,
    { sortable: false },
  );
  return section("Waits in barriers", "For the mean rank of a group whose rows vary as the plan states, and for the measured rank.", list);
}

export const chunk: View = {
  kinds: ["compare-chunk"],
  title: ({ json }) => `A measured chunk of ${modelName(json.plan)}`,
  subtitle: ({ json }) => `${json.comparison.chunk}, ${grouped(json.comparison.kernels)} kernels; predicted with profile ${json.comparison.profile}`,
  render({ json }: Result, root: HTMLElement): void {
    const { comparison } = json;
    const whole = comparison.totals.find((row: Json) => row.name === "chunk");
    if (whole) root.append(answer("The chunk took ", duration(whole.measured_s), " and is predicted with ", h("b", {}, duration(whole.predicted_s)), `: ${signedPercent(whole.error)}.`));
    append(
      root,
      section("Predicted and measured", inputWords(comparison), errorBars(comparison.totals)),
      section("By class of kernels", "Seconds of all kernels of a class; compute and communication overlap.", errorBars(comparison.classes)),
      comparison.spans.length ? foldedSection("Phase by phase", "in the order in which they begin", () => errorTable([...comparison.spans, ...comparison.periods], "Phase", slotOf)) : null,
      comparison.products.length ? foldedSection("GEMMs", "mean of the slots", () => errorTable(comparison.products, "GEMM", productOf)) : null,
      barrierSection(comparison.barriers),
      ...basis({ plan: json.plan }),
    );
  },
};
