// Sweeps over keys of a plan: the best point, the plateau, lines; what moves the step most; the value that is solved for.
import { append, h, name } from "../dom";
import { days, duration, gigabytes, number, perMillion, percent, signedPercent, span, usd } from "../format";
import { outputOf, type Json, type Result } from "../result";
import { basis } from "../parts/basis";
import { intervals, type IntervalRow } from "../parts/bars";
import { chart, type Series } from "../parts/chart";
import { figures } from "../parts/figures";
import { deployments, middleOf, served } from "../parts/middle";
import { answer, section } from "../parts/section";
import { amount, type Column, table } from "../parts/table";
import type { Page, View } from "../view";
import { middleRollout, rolloutColumns, rolloutFigures } from "./step/rollout";
import { hardware, line, modelName } from "./subject";

const text = (value: Json): string => (Array.isArray(value) ? `[${value.join(", ")}]` : String(value));
const setting = (values: Json): string => Object.entries<Json>(values).map(([key, value]) => `${key} = ${text(value)}`).join(", ");

/** A step in the middle of its interval, where steps take as long as clusters run them. */
const middleStep = (point: Json): Json => ({ ...point.step, ...point.middle });

/** Returns the seconds by which points are drawn: of the step, or of an output token. */
const timeOf = (point: Json): number | undefined =>
  point.serving ? middleOf(point).tpot_s : point.rollout ? middleRollout(point.rollout).time_s : middleStep(point).time_s;
const rollouts = (points: Json[]): boolean => points.some((point) => point.rollout);

/** Eight of ten cases of the time of an output token; nothing where none were drawn. */
const tokenInterval = (point: Json): Json => (point.serving?.interval?.tpot_s?.p10 ? point.serving.interval.tpot_s : null);

function lineName(values: Json, along: string): string {
  const others = Object.entries<Json>(values).filter(([key]) => key !== along);
  return others.map(([key, value]) => `${key.replace(/^.*\./, "")} ${text(value)}`).join(", ") || "points";
}

/** As many lines as there are colours; infeasible points are in the table alone. */
const mostLines = 8;
const hasPlateau = ({ plateau }: Json): boolean => plateau && plateau.from !== plateau.to;

function sweepChart(json: Json, page: Page): HTMLElement | null {
  const along: string | null = json.sweep.along;
  if (!along) return null;
  const lines = new Map<string, Series>();
  for (const point of json.points) {
    const time = timeOf(point);
    if (time === undefined || !point.feasible) continue;
    const key = lineName(point.values, along);
    if (!lines.has(key)) lines.set(key, { name: key, points: [] });
    lines.get(key)?.points.push([point.values[along], time]);
  }
  if (lines.size === 0) return null;
  const what = deployments(json.points) ? "TPOT" : "Step time";
  const least = (line: Series): number => Math.min(...line.points.map(([, time]) => time));
  const shown = [...lines.values()].sort((a, b) => least(a) - least(b)).slice(0, mostLines);
  const lead = [
    hasPlateau(json) && !deployments(json.points) && `From ${text(json.plateau.from)} to ${text(json.plateau.to)} it stays within ${percent(json.sweep.plateau)} of the best.`,
    shown.length < lines.size && `The ${shown.length} lowest of ${lines.size} lines; the table has all points.`,
  ];
  return section(
    `${what} against ${along}`,
    lead.filter(Boolean).join(" "),
    chart(page, {
      label: `${what} against ${along}`,
      x: { title: along, format: number, integer: json.points.every((point: Json) => Number.isInteger(point.values[along])) },
      y: { title: what, format: duration },
      series: shown,
    }),
  );
}

function pointsTable(json: Json): HTMLElement {
  const keys: Column<Json>[] = json.sweep.keys.map((key: string) => ({
    title: key,
    value: (row: Json) => (typeof row.values[key] === "number" ? row.values[key] : text(row.values[key])),
  }));
  const best = json.optimum ? timeOf(json.points[json.optimum.point]) ?? NaN : NaN;
  const columns: Column<Json>[] = deployments(json.points) ? [
    ...keys,
    served("TPOT", "tpot_s", duration),
    { title: "P10 to P90", value: (row) => tokenInterval(row)?.p50, show: (row) => span(tokenInterval(row), duration), number: true },
    served("TTFT at load", "ttft_s", duration),
    served("Tokens/s/GPU", "output_tokens_per_s_per_gpu", number),
    served("Million output tokens", "usd_per_million_output_tokens", perMillion),
    served("With prompts", "usd_per_million_tokens_all_in", perMillion),
  ] : rollouts(json.points) ? [
    ...keys,
    ...rolloutColumns,
  ] : [
    ...keys,
    amount("Step", timeOf, duration),
    { title: "Against the best", value: timeOf, show: (row) => (row.step ? signedPercent((timeOf(row) ?? NaN) / best - 1) : "–"), number: true },
    amount("MFU", (row) => middleStep(row).mfu, percent),
    amount("Waits for communication", (row) => row.exposed_communication_share, percent),
    amount("Peak memory", (row) => row.memory?.peak_bytes, gigabytes),
    amount("Days", (row) => row.middle?.days, days),
    amount("Cost", (row) => row.middle?.cost_usd, usd),
  ];
  if (!rollouts(json.points) && json.points.some((row: Json) => row.interval?.time_s?.p10))
    columns.push({ title: "P10 to P90", value: (row) => row.interval?.time_s?.p50, show: (row) => span(row.interval?.time_s, duration), number: true });
  columns.push({ title: "Why not", value: (row) => row.reason, show: (row) => row.reason ?? "", wide: true });
  return table<Json>(columns, json.points, {
    rowClass: (row) => (json.optimum && row === json.points[json.optimum.point] ? "best" : row.feasible ? null : "quiet"),
  });
}

function renderSweep(json: Json, root: HTMLElement, page: Page): void {
  const best = json.optimum && json.points[json.optimum.point];
  if (best?.serving) {
    const middle = middleOf(best);
    const cost = middle.usd_per_million_tokens_all_in;
    root.append(
      answer("Of ", String(json.points.length), " deployments ", h("b", {}, name(setting(best.values))), cost === null ? " serves the most tokens of a GPU." : " serves the cheapest tokens: a million of them with their prompts cost ", cost === null ? "" : h("b", {}, perMillion(cost)), cost === null ? "" : "."),
      figures([
        { name: "Time per output token", value: duration(middle.tpot_s), note: tokenInterval(best) ? `${span(tokenInterval(best), duration)} in eight of ten cases` : null },
        { name: "Time to the first token", value: duration(middle.ttft_s) },
        { name: "Output tokens/s of a GPU", value: number(middle.output_tokens_per_s_per_gpu) },
      ]),
    );
  } else if (best?.rollout) {
    root.append(
      answer("The fastest of ", String(json.points.length), " points is ", h("b", {}, name(setting(best.values))), ": a step of reinforcement learning takes ", h("b", {}, duration(middleRollout(best.rollout).time_s)), "."),
      rolloutFigures(best.rollout),
    );
  } else if (best) {
    root.append(
      answer("The fastest of ", String(json.points.length), " points is ", h("b", {}, name(setting(best.values))), ": a step takes ", h("b", {}, duration(timeOf(best))), "."),
      figures([
        { name: "Best step", value: duration(timeOf(best)), note: best.interval?.time_s?.p10 ? `${span(best.interval.time_s, duration)} in eight of ten cases` : null },
        { name: "MFU", value: percent(middleStep(best).mfu) },
        { name: "Peak memory", value: gigabytes(best.memory?.peak_bytes), note: `of ${gigabytes(best.memory?.capacity_bytes)}` },
        hasPlateau(json) ? { name: "Plateau", value: `${text(json.plateau.from)} to ${text(json.plateau.to)}`, note: `within ${percent(json.sweep.plateau)} of the best` } : null,
      ]),
    );
  } else {
    root.append(answer("No point of the sweep is feasible: ", name(json.points[0]?.reason ?? ""), "."));
  }
  append(root, sweepChart(json, page), section("All points", null, pointsTable(json)));
}

function rangeRow(input: Json, metric: string, base: number): IntervalRow {
  const values = input.settings.map((one: Json) => one[metric]).filter((value: number | null) => value !== null);
  return { label: name(input.name), p10: Math.min(base, ...values), p50: base, p90: Math.max(base, ...values), text: duration(input.width[metric]) };
}

function renderTornado(json: Json, root: HTMLElement): void {
  const [metric, cost] = Object.keys(json.tornado.base);
  const step = metric === "step.time_s" ? "step" : "TPOT";
  const costs = (value: number | null): string => (step === "step" ? usd(value) : perMillion(value));
  const base = json.tornado.base[metric];
  const ordered = [...json.inputs].sort((a: Json, b: Json) => (b.width[metric] ?? 0) - (a.width[metric] ?? 0));
  const top = ordered[0];
  root.append(
    answer("Of these inputs ", h("b", {}, name(top?.name ?? "")), ` moves the ${step} most: by ${duration(top?.width[metric])} over its range, from ${duration(base)}.`),
    section(`${step === "step" ? "Step time" : step} over the range of each input`, null,
      intervals(ordered.map((input: Json) => rangeRow(input, metric, base)), { format: duration, names: ["range of the input", "as planned"] })),
  );
  const settings = ordered.flatMap((input: Json) => input.settings.map((one: Json) => ({ ...one, input: input.name, key: input.key })));
  root.append(
    section("All settings", null,
      table<Json>(
        [
          { title: "Input", value: (row) => row.input },
          { title: "Value", value: (row) => row.value },
          amount(step === "step" ? "Step" : step, (row) => row[metric], duration),
          { title: "Change", value: (row) => row[metric], show: (row) => (row[metric] ? signedPercent(row[metric] / base - 1) : "–"), number: true },
          { title: "Cost", value: (row) => row[cost], show: (row) => costs(row[cost]), number: true },
          { title: "Why not", value: (row) => row.reason, show: (row) => row.reason ?? "", wide: true },
        ],
        settings,
        { rowClass: (row) => (row.feasible ? null : "quiet") },
      )),
  );
}

function metricText(metric: string, value: number | null): string {
  if (metric.endsWith("_s")) return duration(value);
  if (metric.endsWith("usd")) return usd(value);
  if (metric.endsWith("days")) return days(value);
  return metric.endsWith("bytes") ? gigabytes(value) : number(value);
}

function renderSolve(json: Json, root: HTMLElement, page: Page): void {
  const { solve } = json;
  const show = (value: number | null): string => metricText(solve.metric, value);
  const found = solve.exact ?? solve.above ?? solve.below;
  root.append(
    solve.exact
      ? answer(h("b", {}, name(`${solve.key} = ${number(solve.exact.value)}`)), ` gives ${solve.metric} = ${show(solve.target)}.`)
      : answer(`No value of `, h("b", {}, name(solve.key)), ` between ${number(solve.range[0])} and ${number(solve.range[1])} gives exactly ${solve.metric} = ${show(solve.target)}`,
          found ? `; the nearest that were tried are ${[solve.below, solve.above].filter(Boolean).map((one: Json) => `${number(one.value)} (${show(one.metric)})`).join(" and ")}.` : "."),
    section(`${solve.metric} against ${solve.key}`, `Now it is ${number(solve.present.value)}, which gives ${show(solve.present.metric)}.`,
      chart(page, {
        label: `${solve.metric} against ${solve.key}`,
        x: { title: solve.key, format: number },
        y: { title: solve.metric, format: show },
        series: [{ name: solve.metric, points: json.samples.filter((one: Json) => one.metric !== null).map((one: Json) => [one.value, one.metric]).sort((a: number[], b: number[]) => a[0] - b[0]) }],
        lines: [{ name: "target", value: solve.target }],
      })),
    section("Values that were tried", null,
      table<Json>(
        [
          { title: solve.key, value: (row) => row.value, show: (row) => number(row.value), number: false },
          { title: solve.metric, value: (row) => row.metric, show: (row) => show(row.metric), number: true },
          { title: "Feasible", value: (row) => (row.feasible ? "" : "no") },
        ],
        json.samples,
      )),
  );
}

const titles: Record<string, string> = { sweep: "Sweep of", "sweep-tornado": "What moves a step of", "sweep-solve": "Solved for" };

export const sweep: View = {
  kinds: ["sweep", "sweep-tornado", "sweep-solve"],
  title: (result: Result) => `${titles[outputOf(result)]} ${modelName(result.json.plan)}`,
  subtitle: (result) => {
    const { sweep: swept, tornado, solve, plan } = result.json;
    return line(hardware(plan), `fidelity ${(swept ?? tornado ?? solve).fidelity}`);
  },
  render(result, root, page) {
    const kind = outputOf(result);
    if (kind === "sweep") renderSweep(result.json, root, page);
    else if (kind === "sweep-tornado") renderTornado(result.json, root);
    else renderSolve(result.json, root, page);
    root.append(...basis(result.json));
  },
};
