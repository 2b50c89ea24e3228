// Steps laid side by side: plans, stored results, a prediction and what was measured.
import { append, h, name } from "../dom";
import { duration, fixed, gigabytes, grouped, perMillion, percent, signedPercent, span, usd } from "../format";
import { planToml } from "../parts/basis";
import { intervals } from "../parts/bars";
import { errorTable } from "../parts/measured";
import { boundBy, deployments, middleOf, served } from "../parts/middle";
import { answer, fold, foldedSection, notice, section } from "../parts/section";
import { speedOf } from "../parts/speed";
import { amount, table } from "../parts/table";
import { waterfall } from "../parts/waterfall";
import type { Json, Result } from "../result";
import type { Timeline } from "../timeline/data";
import { readTimeline } from "../timeline/read";
import { stepForm } from "../timeline/step_form";
import { Viewport } from "../timeline/viewport";
import type { Page, View } from "../view";
import { pairSection, pipelineSection } from "./step/pipeline";
import { middleRollout, rolloutColumns } from "./step/rollout";
import { basisWords, intervalOf } from "./step/words";
import { degrees, hardware, line } from "./subject";

const measured = (subject: Json): boolean => subject.basis?.fidelity === "measured";
const rollouts = (subjects: Json[]): boolean => subjects.some((subject) => subject.rollout);
const timeOf = (subject: Json): number | null =>
  subject.rollout ? middleRollout(subject.rollout).time_s : intervalOf(subject)?.time_s.p50 ?? subject.step?.time_s ?? null;

/** Of the whole training, in the middle of the interval; nothing of a plan without tokens or price. */
const daysOf = (subject: Json): number | null => intervalOf(subject)?.days?.p50 ?? subject.run?.days ?? null;
const costOf = (subject: Json): number | null => intervalOf(subject)?.cost_usd?.p50 ?? subject.run?.cost_usd ?? null;
const priceOf = (subject: Json): number | null => {
  const cost = costOf(subject);
  return cost && cost / (intervalOf(subject)?.gpu_hours?.p50 ?? subject.run.gpu_hours);
};

function sentences(json: Json): HTMLElement {
  const parts: (Node | string)[] = [];
  for (const { from, to, from_s, to_s, reasons } of json.waterfalls) {
    const [before, after] = [timeOf(json.subjects[from]) ?? from_s, timeOf(json.subjects[to]) ?? to_s];
    if (parts.length) parts.push(" ");
    const [usdBefore, usdAfter] = [from, to].map((subject) => middleOf(json.subjects[subject]).usd_per_million_tokens_all_in);
    const cost = usdBefore > 0 && usdAfter > 0 ? [" serves a million output tokens with their prompts for ", h("b", {}, perMillion(usdAfter)), `, ${signedPercent(usdAfter / usdBefore - 1)} against ${perMillion(usdBefore)}, and`] : [];
    parts.push(name(json.subjects[to].name), ...cost, deployments(json.subjects) ? " takes of its GPUs, for a thousand output tokens, " : " takes ", h("b", {}, duration(after)), `, ${signedPercent(after / before - 1)} against ${duration(before)} of `, name(json.subjects[from].name), reasons ? `: ${reasons}.` : ".");
  }
  return answer(...parts);
}

function subjectsSection(json: Json): HTMLElement {
  const predicted = json.subjects.filter(intervalOf);
  const rows = predicted.map((subject: Json) => ({
    label: name(subject.name),
    ...subject.interval.time_s,
    point: subject.step.time_s,
    text: span(subject.interval.time_s, duration),
  }));
  const lines = json.subjects
    .filter((subject: Json) => measured(subject) && subject.step)
    .map((subject: Json) => ({ name: `${subject.name}, measured`, value: subject.step.time_s }));
  const list = table<Json>(
    [
      { title: "Subject", value: (row) => row.name },
      amount("Step time", timeOf, duration),
      amount("From components", (row) => intervalOf(row) && row.step.time_s, duration),
      amount("Tokens/s per GPU", (row) => row.step && speedOf(row.step, intervalOf(row)).tokensPerGpu, grouped),
      amount("MFU", (row) => row.step && speedOf(row.step, intervalOf(row)).mfu, percent),
      { title: "Bubble", value: (row) => row.step?.bubble_s, show: (row) => (row.step ? percent(row.step.bubble_s / row.step.time_s) : ""), number: true },
      amount("Peak memory", (row) => row.memory?.peak_bytes, gigabytes),
      { title: "Days", value: (row) => daysOf(row), show: (row) => (daysOf(row) ? fixed(daysOf(row), 1) : ""), number: true },
      { title: "Cost per GPU-hour", value: (row) => priceOf(row), show: (row) => (priceOf(row) ? perMillion(priceOf(row)) : ""), number: true },
      { title: "Cost", value: (row) => costOf(row), show: (row) => (costOf(row) ? usd(costOf(row)) : ""), number: true },
      { title: "What it is", value: (row) => line(hardware(row.plan, row.basis?.device), degrees(row.plan), basisWords(row)), wide: true },
    ],
    json.subjects,
  );
  return section("Side by side", "", rows.length ? intervals(rows, { lines, format: duration, pointName: "from components alone" }) : null, list);
}

function rolloutsSection(json: Json): HTMLElement {
  return section("Side by side", "", table<Json>([{ title: "Subject", value: (row) => row.name }, ...rolloutColumns], json.subjects));
}

function deploymentsSection(json: Json): HTMLElement {
  return section("Side by side", "", table<Json>(
    [
      { title: "Deployment", value: (row) => row.name },
      served("With prompts", "usd_per_million_tokens_all_in", perMillion),
      served("Million output tokens", "usd_per_million_output_tokens", perMillion),
      amount("A GPU-hour", (row) => row.usd_per_gpu_hour, perMillion),
      served("Output tokens/s of a GPU", "output_tokens_per_s_per_gpu", grouped),
      served("TPOT", "tpot_s", duration),
      served("TTFT at load", "ttft_s", duration),
      { title: "Binds", value: (row) => boundBy(row.serving?.bound_by) },
    ],
    json.subjects,
  ));
}

function differenceSection(json: Json, difference: Json): HTMLElement {
  const [from, to] = [json.subjects[difference.from].name, json.subjects[difference.to].name];
  const causes = difference.rows.map((row: Json) => ({ name: row.name, seconds: row.to_s - row.from_s, note: `${duration(row.from_s)} to ${duration(row.to_s)}` }));
  return section(
    `From ${from} to ${to}`,
    deployments(json.subjects)
      ? "GPU-seconds of a thousand output tokens: parts of a decode step, and prompts. The rows add up to the difference."
      : rollouts(json.subjects)
        ? "The parts of a step, as components add up to; the rows add up to the difference."
        : "What components add up to, by use of the time of rank 0; the rows add up to the difference. Shares are of the second step.",
    waterfall({ name: from, seconds: difference.from_s }, causes, { name: to, seconds: difference.to_s }),
  );
}

function measuredSection(json: Json, pair: Json): HTMLElement {
  const place = pair.inside_interval === null ? "" : pair.inside_interval ? " It lies inside of the interval of eight in ten cases." : " It lies outside of the interval of eight in ten cases.";
  const lead = `The step was predicted with ${duration(pair.step.predicted_s)} from components and took ${duration(pair.step.measured_s)}: ${signedPercent(pair.step.error)}.${place}`;
  const { overlapped } = pair;
  const keys = pair.differing_keys.map((key: Json) => notice(false, `${key.key}: predicted with ${key.predicted}, measured with ${key.measured}`));
  return section(
    `${json.subjects[pair.predicted].name}, predicted, against ${json.subjects[pair.measured].name}, measured`,
    lead,
    ...keys,
    pair.parts.length ? errorTable(pair.parts, "Part of the step") : null,
    pair.classes.length ? h("h3", {}, "By class of operator") : null,
    pair.classes.length ? errorTable(pair.classes, "Class") : null,
    overlapped?.phases?.length ? fold("Phases of the overlapped pairs", () => errorTable(overlapped.phases, "Phase")) : null,
  );
}

/** Returns pictures of the timelines that move together. */
function timelineSections(page: Page, timelines: Timeline[]): (HTMLElement | null)[] {
  const shared = new Viewport(Math.max(...timelines.map((timeline) => timeline.end)), stepForm.shortest);
  return timelines.flatMap((timeline, i) => [pipelineSection(page, timeline, i === 0, shared), pairSection(page, timeline)]);
}

export const compare: View = {
  kinds: ["compare"],
  title: ({ json }) => (json.subjects.length === 2 ? `${json.subjects[0].name} and ${json.subjects[1].name}` : `${json.subjects.length} ${deployments(json.subjects) ? "deployments" : "steps"} side by side`),
  render(result: Result, root: HTMLElement, page: Page): void {
    const { json } = result;
    if (json.waterfalls.length) append(root, sentences(json));
    if (!json.comparison.same_tokens) append(root, notice(false, "The steps train on different numbers of tokens."));
    for (const subject of json.subjects) if (subject.reason) append(root, notice(true, name(subject.name), `: ${subject.reason}`));
    append(root, deployments(json.subjects) ? deploymentsSection(json) : rollouts(json.subjects) ? rolloutsSection(json) : subjectsSection(json), ...json.waterfalls.map((difference: Json) => differenceSection(json, difference)));
    append(root, ...json.predicted_and_measured.map((pair: Json) => measuredSection(json, pair)));
    const timelines = (result.extra?.timelines ?? []).map(readTimeline);
    if (timelines.length) append(root, ...timelineSections(page, timelines));
    for (const subject of json.subjects)
      if (subject.plan) append(root, foldedSection(`The plan of ${subject.name}`, "every default written out", () => h("pre", {}, planToml(subject.plan))));
  },
};
