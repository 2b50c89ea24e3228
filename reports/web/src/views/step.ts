// A step: predicted (simulate) or executed (run).
import { append, h, name } from "../dom";
import { aboutUsd, days, duration, gigabytes, grouped, number, percent, type Quantiles, scaled, span } from "../format";
import { assumedSection, basis, constantsTable, evidence } from "../parts/basis";
import { figures, type Figure } from "../parts/figures";
import { fitOf, fitTone, fitWords } from "../parts/fit";
import { answer, foldedSection, notice, section } from "../parts/section";
import { speedOf } from "../parts/speed";
import type { Json, Result } from "../result";
import type { Timeline } from "../timeline/data";
import { readTimeline, readTimelineRows } from "../timeline/read";
import type { Page, View } from "../view";
import { levelsSection, memorySection } from "./step/memory";
import { kernelsSection, pairSection, pipelineSection } from "./step/pipeline";
import { rolloutAnswer, rolloutFigures, rolloutSection } from "./step/rollout";
import { runSection, trainingSection } from "./step/run";
import { breakdownSection, clusterSection, idealSection, intervalSection, measuredSection, publishedSection } from "./step/time";
import { basisWords, intervalOf, tokensOf } from "./step/words";
import { degrees, hardware, line, modelName } from "./subject";

/** How many constants stand in the open. */
const mostConstants = 12;

function sentence(json: Json): HTMLElement {
  const { step, run, memory } = json;
  const interval = intervalOf(json);
  const parts: (Node | string)[] = [json.rollout ? "One update of the policy on " : "One training step on ", name(hardware(json.plan, json.basis?.device)), json.training ? " took " : " takes ", h("b", {}, duration(interval?.time_s.p50 ?? step.time_s))];
  if (interval) parts.push(` (${span(interval.time_s, duration)} in eight of ten cases)`);
  parts.push(` and ${json.training ? "learned" : "learns"} from ${scaled(tokensOf(json.plan))} tokens.`);
  if (run) {
    const around = (quantiles: Quantiles | undefined, format: (value: number) => string): string => (quantiles ? ` (${span(quantiles, format)})` : "");
    parts.push(` Training on ${scaled(run.tokens)} tokens takes `, h("b", {}, days(interval?.days?.p50 ?? run.days)), around(interval?.days, days));
    const cost = interval?.cost_usd?.p50 ?? run.cost_usd;
    if (cost) parts.push(" and costs ", h("b", {}, aboutUsd(cost)), around(interval?.cost_usd, aboutUsd));
    parts.push(run.goodput_source === "without failures" ? ", without failures." : ".");
  }
  if (memory?.stages?.length) {
    const verdicts = { fits: "It fits in memory.", "at the edge": `It is at the edge of memory: it ${fitWords(memory)}.`, "does not fit": "It does not fit in memory." };
    parts.push(` ${verdicts[fitOf(memory)]}`);
  }
  return answer(...parts);
}

function tiles(json: Json): HTMLElement {
  const { step, run, memory, bound } = json;
  const interval = intervalOf(json);
  const speed = speedOf(step, interval);
  const ofComponents = interval ? `${percent(step.mfu)} from components alone; ` : "";
  const peaks = interval?.peak_bytes?.p10 < interval?.peak_bytes?.p90 ? `; ${span(interval?.peak_bytes, gigabytes)} in eight of ten cases${interval?.peak_bytes.p90 > memory?.capacity_bytes ? ", on a device without limit" : ""}` : "";
  const list: (Figure | null)[] = [
    {
      name: json.training ? "Step time, median" : "Step time",
      value: duration(interval?.time_s.p50 ?? step.time_s),
      note: interval ? `${duration(step.time_s)} from components alone` : bound?.time_s ? `cannot be below ${duration(bound.time_s)}` : null,
    },
    { name: "Tokens per second", value: scaled(speed.tokens), note: `${grouped(speed.tokensPerGpu)} per GPU` },
    { name: "MFU", value: percent(speed.mfu), note: `of the BF16 peak; ${ofComponents}${percent(speed.mfuCausal)} with causal attention` },
    step.bubble_s === null ? null : { name: "Bubble and messages", value: percent(step.bubble_s / step.time_s), note: `${duration(step.bubble_s)} of rank 0` },
    memory?.stages?.length
      ? { name: "Memory", value: gigabytes(memory.peak_bytes), note: `of ${gigabytes(memory.capacity_bytes)} on the fullest GPU${peaks}`, tone: fitTone(memory) }
      : null,
    step.gpu_power_w ? { name: "Power per GPU", value: `${grouped(step.gpu_power_w)}\u00a0W`, note: `${number(step.energy_j / 1e6)}\u00a0MJ a step` } : null,
    step.trained_parameters ? { name: "Trained parameters", value: scaled(step.trained_parameters), note: "of adapters; the others are frozen" } : null,
    run ? { name: "GPU-hours", value: scaled(interval?.gpu_hours?.p50 ?? run.gpu_hours), note: interval?.gpu_hours ? `${span(interval.gpu_hours, scaled)}` : null } : null,
  ];
  return figures(list);
}

function constants(json: Json): (HTMLElement | null)[] {
  if (!json.provenance?.length) return basis({ plan: json.plan });
  const ordered = [...json.provenance].sort((a: Json, b: Json) => b.share_of_step - a.share_of_step);
  const rest = ordered.slice(mostConstants);
  return [
    section(
      "What the prediction rests on",
      `By the share of the step that depends on it: ${evidence(json.provenance)}. The ${Math.min(mostConstants, ordered.length)} constants with the largest shares:`,
      constantsTable(ordered.slice(0, mostConstants)),
    ),
    rest.length ? foldedSection(`${rest.length} other constants`, "with smaller shares", () => constantsTable(rest)) : null,
    ...basis({ plan: json.plan }),
  ];
}

function timelineOf(result: Result): Timeline | null {
  if (result.extra?.timelines?.length) return readTimeline(result.extra.timelines[0]);
  return result.json.timeline?.spans?.length ? readTimelineRows(result.json.timeline, "") : null;
}

export const step: View = {
  kinds: ["simulate", "run"],
  title: ({ json: { plan, rollout, training } }) => {
    if (rollout) return `Reinforcement learning of ${modelName(plan)}`;
    return training ? `A step of ${modelName(plan)}, executed` : `A training step of ${modelName(plan)}`;
  },
  subtitle: (result) => line(degrees(result.json.plan), basisWords(result.json)),
  render(result: Result, root: HTMLElement, page: Page): void {
    const { json } = result;
    const timeline = timelineOf(result);
    if (json.rollout) append(root, rolloutAnswer(json), rolloutFigures(json.rollout), rolloutSection(json.rollout), h("h2", { class: "part" }, "An update of the policy"));
    if (json.rollout_reason) root.append(notice(true, "No step of reinforcement learning: ", name(json.rollout_reason), ". Of an update of the policy:"));
    append(root, sentence(json), ...(json.basis?.warnings ?? []).map((warning: string) => notice(false, name(`${warning}.`))), tiles(json));
    append(root, measuredSection(json.measured), intervalSection(json), trainingSection(page, json), idealSection(json));
    if (timeline) append(root, pipelineSection(page, timeline, true), pairSection(page, timeline), kernelsSection(timeline));
    append(root, breakdownSection(json), clusterSection(json), memorySection(json));
    if (timeline) append(root, levelsSection(page, timeline, json));
    append(root, publishedSection(result.extra?.published), runSection(json), assumedSection(json.assumed), ...constants(json));
  },
};
