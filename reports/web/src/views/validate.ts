// Predictions compared with published and measured figures: cases, steps with intervals, components, deployments, the ledger.
import { h, name } from "../dom";
import { duration, fixed, gigabytes, none, number, percent, signedPercent, span } from "../format";
import { outputOf, type Json, type Result } from "../result";
import { intervals } from "../parts/bars";
import { figures } from "../parts/figures";
import { answer, fold, foldedSection, notice, section } from "../parts/section";
import { amount, type Column, table } from "../parts/table";
import type { View } from "../view";

const verdict = (ok: boolean | null): HTMLElement => h("span", { class: ok === null ? "soft" : ok ? "good" : "bad" }, ok === null ? none : ok ? "within" : "outside");
const last = (values: Json): number | null => (values === null || typeof values !== "object" ? values : (Object.values<number>(values).pop() ?? null));

function figuresCase(one: Json): HTMLElement[] {
  const own = one.profiles[one.profiles.length - 1];
  const columns: Column<Json>[] = [
    { title: "Figure", value: (row) => row.name },
    { title: "Published", value: (row) => row.published, show: (row) => `${number(row.published)}\u00a0${row.unit}`, number: true },
    ...one.profiles.map((profile: string) => (amount(profile, (row: Json) => row.predicted?.[profile], number))),
    amount("Error", (row) => row.error?.[own], signedPercent),
    amount("Naive", (row) => row.naive_error, signedPercent),
    amount("Tolerance", (row) => row.tolerance, percent),
    { title: "Verdict", value: (row) => String(row.within_tolerance), show: (row) => verdict(row.within_tolerance) },
    { title: "Source", value: (row) => row.source, wide: true },
  ];
  const parts = [table(columns, one.figures as Json[])];
  if (one.aggregates?.length)
    parts.push(
      table<Json>(
        [
          { title: "Over the rows", value: (row) => row.name },
          amount("Value", (row) => last(row.value), percent),
          amount("Tolerance", (row) => row.tolerance, percent),
          { title: "Verdict", value: (row) => String(row.within_tolerance), show: (row) => verdict(row.within_tolerance) },
        ],
        one.aggregates,
      ),
    );
  return parts;
}

const errorColumns: Column<Json>[] = [
  { title: "Rows", value: (row) => row.name },
  { title: "Number", value: (row) => row.rows, number: true },
  amount("Mean error", (row) => row.prediction.mean_absolute, percent),
  amount("Median", (row) => row.prediction.median_absolute, percent),
  amount("Largest", (row) => row.prediction.largest, percent),
  amount("Bias", (row) => row.prediction.bias, signedPercent),
  amount("Baseline's mean", (row) => row.baseline?.mean_absolute, percent),
];

function stepsCase(one: Json): HTMLElement[] {
  const predicted = one.steps.filter((step: Json) => step.measured_s && step.predicted_s);
  const shown = predicted.filter((step: Json) => step.interval).slice(0, 60);
  const ratio = (value: number, step: Json): number => value / step.measured_s;
  const picture = intervals(
    shown.map((step: Json) => ({
      label: h("span", {}, name(step.model), " ", h("small", {}, name(step.hardware))),
      p10: ratio(step.interval.p10, step), p50: ratio(step.interval.p50, step), p90: ratio(step.interval.p90, step),
      point: ratio(step.predicted_s, step),
      text: signedPercent(step.error),
    })),
    { lines: [{ name: "measured", value: 1 }], format: (value) => fixed(value, 2), pointName: "from components" },
  );
  const rows = table<Json>(
    [
      { title: "Step", value: (row) => row.id },
      { title: "Model", value: (row) => row.model },
      { title: "Hardware", value: (row) => row.hardware },
      { title: "Layout", value: (row) => row.layout, wide: true },
      amount("Measured", (row) => row.measured_s, duration),
      amount("Predicted", (row) => row.predicted_s, duration),
      amount("Error", (row) => row.error, signedPercent),
      { title: "P10 to P90", value: (row) => row.interval?.p50, show: (row) => span(row.interval, duration), number: true },
      amount("Baseline", (row) => row.baseline_error, signedPercent),
    ],
    one.steps,
  );
  return [
    table(errorColumns, [...one.demands, ...one.summaries] as Json[], { caption: "Errors of step times; the baseline is one constant MFU." }),
    shown.length ? h("div", {}, h("h3", {}, shown.length < predicted.length ? `Over the measured step, the first ${shown.length} of ${predicted.length}` : "Over the measured step"), picture) : h("div"),
    fold(`${one.steps.length} steps`, () => rows),
  ];
}

function componentsCase(one: Json): HTMLElement[] {
  const whole = one.components.filter((row: Json) => row.table === null);
  const single = one.components.filter((row: Json) => row.table !== null);
  return [componentsTable(whole), ...(single.length ? [fold(`${single.length} rows by table`, () => componentsTable(single))] : [])];
}

function componentsTable(rows: Json[]): HTMLElement {
  return table<Json>(
      [
        { title: "Profile", value: (row) => row.profile },
        { title: "Kernels", value: (row) => row.family },
        { title: "Rows", value: (row) => row.rows, number: true },
        amount("Median error", (row) => row.median, percent),
        amount("P90", (row) => row.p90, percent),
        amount("Roofline's median", (row) => row.roofline_median, percent),
        amount("Goal", (row) => row.goal, percent),
        { title: "Table", value: (row) => row.table, wide: true },
      ],
      rows,
    );
}

function servingCase(one: Json): HTMLElement[] {
  const rows = one.deployments.flatMap((deployment: Json) => deployment.figures.map((figure: Json) => ({ ...figure, id: deployment.id, set: deployment.set })));
  return [
    table<Json>(
      [
        { title: "Rows", value: (row) => row.name },
        { title: "Figure", value: (row) => row.figure },
        amount("Mean error", (row) => row.prediction.mean_absolute, percent),
        amount("Bias", (row) => row.prediction.bias, signedPercent),
        amount("Roofline's mean", (row) => row.roofline.mean_absolute, percent),
        amount("Inside the interval", (row) => row.interval?.coverage, percent),
      ],
      [...one.demands, ...one.summaries],
    ),
    fold(`${rows.length} figures of ${one.deployments.length} deployments`, () =>
      table<Json>(
        [
          { title: "Deployment", value: (row) => row.id },
          { title: "Figure", value: (row) => row.name },
          amount("Published", (row) => row.published, number),
          amount("Predicted", (row) => row.predicted, number),
          amount("Error", (row) => row.error, signedPercent),
        ],
        rows,
      ),
    ),
  ];
}

function caseSection(one: Json): HTMLElement {
  const content = one.figures ? figuresCase(one) : one.steps ? stepsCase(one) : one.components ? componentsCase(one) : servingCase(one);
  return section(one.name, h("span", { class: one.passed ? "good" : "bad" }, one.passed ? "within its tolerances" : "outside a tolerance"), ...content);
}

function renderCases(json: Json, root: HTMLElement): void {
  const failed = json.cases.filter((one: Json) => !one.passed);
  root.append(answer(json.passed ? json.cases.length === 1 ? "The case is within its tolerances." : `All ${json.cases.length} cases are within their tolerances.` : `${failed.length} of ${json.cases.length} cases are outside a tolerance.`));
  if (failed.length) root.append(notice(true, `Outside: ${failed.map((one: Json) => one.name).join(", ")}`));
  const scored = json.intervals.filter((one: Json) => one.step);
  if (scored.length)
    root.append(
      section("Intervals of steps", "Eight of ten measured values should lie inside.",
        table<Json>(
          [
            { title: "Rows", value: (row) => row.name },
            { title: "Number", value: (row) => row.step.rows, number: true },
            amount("Inside", (row) => row.step.coverage, percent),
            amount("Half width", (row) => row.step.half_width, percent),
            amount("Baseline's inside", (row) => row.baseline?.coverage, percent),
            amount("Baseline's half width", (row) => row.baseline?.half_width, percent),
          ],
          scored,
        )),
    );
  root.append(...json.cases.map(caseSection));
}

function renderLedger(json: Json, root: HTMLElement): void {
  root.append(
    answer(json.measured ? `${json.inside} of ${json.measured} measured predictions lie inside their interval.` : "None of the recorded predictions has been measured yet."),
    figures([{ name: "Measured", value: String(json.measured) }, { name: "Inside the interval", value: String(json.inside) }, { name: "Open", value: String(json.open) }]),
    section("Predictions before their measurement", null,
      table<Json>(
        [
          { title: "Plan", value: (row) => row.plan },
          { title: "Recorded", value: (row) => row.date, show: (row) => String(row.date).slice(0, 10) },
          { title: "Step, P10 to P90", value: (row) => row.time_s?.p50, show: (row) => span(row.time_s, duration), number: true },
          amount("Measured", (row) => row.time_s?.measured, duration),
          amount("Error", (row) => row.time_s?.error, signedPercent),
          { title: "Inside", value: (row) => ({ true: "yes", false: "no" })[String(row.time_s?.inside)] },
          { title: "Peak memory, P10 to P90", value: (row) => row.peak_bytes?.p50, show: (row) => span(row.peak_bytes, gigabytes), number: true },
          { title: "Profile", value: (row) => row.profile },
        ],
        json.entries,
      )),
    foldedSection("Sources of the measurements", "", () => h("div", {}, ...json.entries.filter((one: Json) => one.source).map((one: Json) => h("p", {}, name(`${one.plan}: ${one.source}`))))),
  );
}

export const validate: View = {
  kinds: ["validate", "validate-ledger"],
  title: (result: Result) => (outputOf(result) === "validate" ? "Predictions compared with published measurements" : "The ledger of predictions"),
  subtitle: ({ json }) => (json.cases?.length ? `${json.cases.map((one: Json) => one.name).slice(0, 3).join(", ")}${json.cases.length > 3 ? ` and ${json.cases.length - 3} other cases` : ""}` : ""),
  render(result, root) {
    if (outputOf(result) === "validate") renderCases(result.json, root);
    else renderLedger(result.json, root);
  },
};
