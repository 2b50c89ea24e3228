// How long a step takes, how sure that is, and where the time goes.
import { h, name } from "../../dom";
import { duration, fixed, gigabytes, number, percent, signedPercent, span } from "../../format";
import { bars, intervals, type Part } from "../../parts/bars";
import { section } from "../../parts/section";
import { slotWords } from "../../parts/slots";
import { amount, table } from "../../parts/table";
import { sourcesTable } from "../../parts/uncertainty";
import { waterfall } from "../../parts/waterfall";
import type { Json } from "../../result";
import { intervalOf } from "./words";

export function intervalSection(json: Json): HTMLElement | null {
  const { step, bound } = json;
  const interval = intervalOf(json);
  if (!interval) return null;
  const row = { label: "step time", ...interval.time_s, point: step.time_s, text: span(interval.time_s, duration) };
  const lines = bound?.time_s ? [{ name: "lower bound", value: bound.time_s }] : [];
  const left = interval.left_rows ? `Measured steps took ${fixed(interval.left_factor, 2)} times what is predicted (${interval.left_rows}).` : "";
  const parts = (interval.parts ?? []).filter((part: Json) => part.share >= 0.001);
  return section("How sure is this?", left, intervals([row], { lines, format: duration, pointName: "from components alone" }), sourcesTable(parts));
}

/** Where the step is only what its components add up to, how long one takes in the middle of the interval. */
function asRun(json: Json): string | undefined {
  const middle = intervalOf(json)?.time_s.p50;
  return middle && `from components alone; as clusters run it ${duration(middle)}`;
}

/** From the FLOPs at the GPU's peak over the proven bound to the step. */
export function idealSection(json: Json): HTMLElement | null {
  const { bound, step } = json;
  if (!bound?.time_s || !bound.lost?.length) return null;
  const { flops_at_peak_s: ideal, time_s: least, binds, rank } = bound;
  const lost = bound.lost.map((part: Json) => ({ name: part.cause, seconds: part.seconds, note: part.remedy }));
  const rates = { name: "kernels at the best rates of the profile", seconds: least - (ideal ?? 0), note: `the proven lower bound: ${binds}, ${duration(least)}` };
  const first = ideal ? { name: "FLOPs at the GPU's peak", seconds: ideal, note: `pipeline rank ${rank}` } : { name: "lower bound", seconds: least, note: binds };
  return section(
    "From the ideal to the step",
    "What keeps the step from the time that its FLOPs would take at the GPU's peak, and what would remove it.",
    waterfall(first, ideal ? [rates, ...lost] : lost, { name: "the step", seconds: step.time_s, note: asRun(json) }),
  );
}

function slotParts(step: Json): Part[] {
  const parts = Object.entries<number | null>(step.slots_s ?? {}).map(([slot, value]) => ({
    name: slotWords[slot] ?? slot,
    value: value ?? 0,
    color: `slot-${slot}`,
  }));
  parts.push({ name: "bubble and messages", value: step.bubble_s ?? 0, color: "line" }, { name: "optimizer", value: step.optimizer_s ?? 0, color: "slot-other" });
  return parts.filter((part) => part.value > 0);
}

export function breakdownSection(json: Json): HTMLElement | null {
  const { step } = json;
  const parts = slotParts(step);
  if (parts.length === 0) return null;
  const classes = Object.entries<number>(step.breakdown_s ?? {})
    .filter(([, seconds]) => seconds > step.time_s * 0.0005)
    .sort((a, b) => b[1] - a[1]);
  const rows = classes.map(([key, seconds]) => ({
    label: key.replace(/_/g, " "),
    parts: [{ name: key.replace(/_/g, " "), value: seconds, color: "accent" }],
    text: [h("span", {}, duration(seconds)), h("small", {}, ` ${percent(seconds / step.time_s)}`)],
  }));
  const exposed = step.exposed_communication_s ? `Inside of the slots, compute waits ${duration(step.exposed_communication_s)} for communication.` : "";
  return section(
    "Where the time goes",
    `The step as rank 0 spends it. ${exposed}`,
    bars([{ label: "schedule", parts, text: duration(step.time_s) }], { legend: true }),
    classes.length ? h("h3", {}, "By class of operator") : null,
    classes.length ? bars(rows.map((row) => ({ ...row, text: h("span", {}, ...row.text) })), { legend: false }) : null,
  );
}

export function publishedSection(rows: Json[]): HTMLElement | null {
  if (!rows?.length) return null;
  return section(
    "How close is this to reality?",
    "Predicted values next to those that were published.",
    table<Json>(
      [
        { title: "Quantity", value: (row) => row.name },
        amount("Predicted", (row) => row.predicted, number),
        amount("Published", (row) => row.published, number),
        { title: "Unit", value: (row) => row.unit },
        { title: "Error", value: (row) => row.predicted / row.published - 1, show: (row) => (row.published ? signedPercent(row.predicted / row.published - 1) : ""), number: true },
        { title: "Source", value: (row) => row.source, wide: true },
      ],
      rows,
    ),
  );
}

const steps = (title: string, key: string, rows: Json[]): HTMLElement | null =>
  rows.length === 0
    ? null
    : table<Json>(
        [
          { title, value: (row) => row[key] },
          amount("Step", (row) => row.step_s, duration),
          { title: "To try", value: (row) => row.try ?? "" },
        ],
        rows,
        { sortable: false },
      );

/** Returns what a measured step (--measured) says, what may have made it, and how else it may have been counted. */
export function measuredSection(measured: Json | null): HTMLElement | null {
  if (!measured) return null;
  const { conventions, causes, memory } = measured;
  return section(
    "The measured step",
    name(`${measured.given} is a step of ${duration(measured.step_s)}. ${measured.sentence}`),
    steps("Cause", "cause", causes),
    conventions.length > 1 ? steps("FLOPs counted as", "convention", conventions) : null,
    memory && h("p", {}, `Memory: ${gigabytes(memory.peak_bytes)}. ${memory.sentence}`),
  );
}

export function clusterSection(json: Json): HTMLElement | null {
  const { cluster } = json;
  if (!cluster) return null;
  return section(
    "Every GPU of the cluster",
    `${cluster.gpus} GPUs, ${cluster.seeds} drawn fleets: a step takes ${span(cluster.step_s, duration)} in eight of ten.`,
    table<Json>(
      [
        { title: "Cause", value: (part) => part.cause },
        amount("Of the bubble", (part) => part.seconds, duration),
        amount("Of the step", (part) => part.step_s, duration),
      ],
      cluster.bubble ?? [],
    ),
    h("ul", {}, ...(cluster.priors ?? []).map((prior: string) => h("li", {}, name(prior)))),
  );
}
