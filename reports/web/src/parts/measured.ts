// Predicted next to measured: rows with predicted_s, measured_s and error, of a step, a chunk or a trace.
import { h, type Child } from "../dom";
import { duration, signedPercent } from "../format";
import type { Json } from "../result";
import { bars } from "./bars";
import { amount, table } from "./table";

/** Returns the rows as a table, in their order; `label` is the title of their names. */
export const errorTable = (rows: Json[], label: string, nameOf = (row: Json): string => row.name): HTMLElement =>
  table<Json>(
    [
      { title: label, value: nameOf },
      amount("Predicted", (row) => row.predicted_s, duration),
      amount("Measured", (row) => row.measured_s, duration),
      amount("Error", (row) => row.error, signedPercent),
      { title: "Of the step", value: (row) => row.of_step, show: (row) => (row.of_step === undefined ? "" : signedPercent(row.of_step)), number: true },
    ],
    rows,
  );

/** Returns two bars for each row, the predicted one above the measured one. */
export function errorBars(rows: Json[]): HTMLElement {
  const bar = (label: Child, name: string, color: string, value: number | null, text: Child) => ({
    label,
    parts: [{ name, value: value ?? 0, color }],
    text,
  });
  const pairs = rows.flatMap((row) => [
    bar(row.name, "predicted", "accent", row.predicted_s, h("span", {}, duration(row.predicted_s), h("span", { class: "share" }, row.error === null ? "" : signedPercent(row.error)))),
    bar("", "measured", "c2", row.measured_s, h("span", {}, duration(row.measured_s), h("span", { class: "share" }))),
  ]);
  return bars(pairs, { legend: true });
}
