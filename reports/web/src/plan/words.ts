// What the page of a plan says in sentences.
import { type Child, name } from "../dom";
import { counted, grouped } from "../format";
import type { Json } from "../result";
import { contenders, type Offer, offerName, recommended } from "./offers";
import { chance, daysUnit, givenIn, rangeIn, secondsUnit, tokensUnit, usdUnit } from "./ranges";

const superlatives: Record<string, string> = { time: "fastest", cost: "cheapest" };

/** The superlative of the objective: "the fastest". */
export const theBest = (objective: string): string =>
  superlatives[objective] ? `the ${superlatives[objective]}` : "the one with the fewest GPU-hours";

/** Joins names: a, b or c. */
export function listed(parts: Child[][], last: string): Child[] {
  return parts.flatMap((part, i) =>
    i === 0 ? part : [i === parts.length - 1 ? ` ${last} ` : ", ", ...part],
  );
}

/** The question: tokens, batch, limits. */
export function questionWords(json: Json): string {
  const { question } = json;
  const plan = json.plan ?? json.sites.find((site: Json) => site.plans.length > 0)?.plans[0]?.plan;
  const words: string[] = [];
  if (plan?.run?.tokens) words.push(`${givenIn(Number(plan.run.tokens.toPrecision(4)), tokensUnit(plan.run.tokens))} tokens`);
  if (plan?.batch) {
    const { global_batch_size: sequences, sequence_length: length } = plan.batch;
    words.push(`${grouped(sequences)} sequences of ${grouped(length)} tokens a step`);
  }
  if (question.deadline_days !== null) words.push(`within ${givenIn(question.deadline_days, daysUnit(question.deadline_days))}`);
  if (question.budget_usd !== null) words.push(`for at most ${givenIn(question.budget_usd, usdUnit(question.budget_usd))}`);
  words.push(`which ${json.sites.length === 1 ? "plan" : `of ${json.sites.length} offers`} is ${theBest(question.objective)}?`);
  return words.join(" · ");
}

/** 54 days (48–61), $5.6 M (5.0–6.3), with failures where these are predicted; without an end, with failures */
export function takes(offer: Offer): string {
  if (!offer.days) return offer.step ? `a step of ${rangeIn(offer.step, secondsUnit(offer.step.middle), 3)}` : "";
  const failing = offer.risk?.days ? offer.risk : null;
  const { days, usd } = failing ?? offer;
  if (days?.middle === Infinity) return "without an end, with failures";
  const words = days ? [rangeIn(days, daysUnit(days.middle), 2)] : [];
  if (usd) words.push(rangeIn(usd, usdUnit(usd.middle), 2));
  return words.join(", ") + (failing ? " with failures" : "");
}

/** The answer in a sentence; where no offer is the best, with what the first by prediction takes. */
export function answer(json: Json, offers: Offer[]): Child[] {
  const first = recommended(json, offers);
  if (!first) return ["No offer has a plan."];
  const objective = theBest(json.question.objective);
  const candidates = offers.filter((offer) => offer.plan);
  const byPrediction = ["First by prediction is ", offerName(first), `: ${takes(first)}.`];
  if (json.verdict.shortfall) return ["No offer meets the limits: ", name(json.verdict.shortfall), ". ", ...byPrediction];
  if (json.verdict.winner === null && candidates.length > 1) {
    const names = contenders(json, offers).map((offer) => [offerName(offer), ` (${chance(offer.best)})`]);
    const level = chance(json.verdict.probability_needed);
    const open: Child[] =
      names.length > 0
        ? [`No offer is ${objective} with ${level} or more: it is `, ...listed(names, "or"), ". "]
        : ["No offer keeps the limits in any of the cases that were drawn. "];
    return [...open, ...byPrediction];
  }
  const likely = candidates.length > 1 ? `, ${chance(first.best)} likely ${objective} of ${candidates.length} offers` : "";
  return ["Train on ", offerName(first), `: ${takes(first)}${likely}.`];
}

function degrees(plan: Json): string[] {
  const { parallelism: p, schedule, cluster } = plan;
  const words: string[] = [];
  const copy = p.tensor * p.context * p.pipeline;
  const copies = cluster.gpus / copy;
  const what = p.expert > 1 ? "what all tokens pass" : "the model";
  words.push(copy === 1 ? `Each GPU holds a copy of ${what}` : `Each copy of ${what} spans ${grouped(copy)} GPUs`);
  if (p.pipeline > 1) {
    const chunks = schedule.virtual_stages > 1 ? `, ${schedule.virtual_stages} chunks of layers on each` : "";
    words.push(`${p.pipeline} pipeline ranks (${schedule.kind}${chunks})`);
  }
  if (p.tensor > 1) words.push(`${p.tensor} tensor ranks${p.sequence ? " with sequence parallelism" : ""}`);
  if (p.context > 1) words.push(`${p.context} context ranks`);
  if (p.expert > 1) words.push(`experts spread over ${p.expert * p.expert_tensor} ranks`);
  const experts = p.expert * p.expert_tensor;
  const ofExperts = experts > 1 ? `, ${grouped((copies * p.tensor * p.context) / experts)} of the experts` : "";
  words.push(`${counted(copies, "copy").replace("copys", "copies")} in parallel${ofExperts}`);
  return words;
}

const sharded = ["nothing is sharded", "optimizer states are sharded", "gradients and optimizer states are sharded",
  "parameters, gradients and optimizer states are sharded"];

/** The recommended plan as an engineer would say it. */
export function planWords(plan: Json): string {
  const { parallelism: p, batch, precision, recompute, overlap } = plan;
  const copies = plan.cluster.gpus / (p.tensor * p.context * p.pipeline);
  const micro = batch.global_batch_size / copies / batch.micro_batch_size;
  const [first, ...rest] = degrees(plan);
  const layout = rest.length > 0 ? `${first}: ${rest.join(", ")}.` : `${first}.`;
  const size = counted(batch.micro_batch_size, "sequence");
  const steps = `A step has ${counted(micro, "micro-batch").replace("batchs", "batches")} of ${size} for each copy.`;
  const exchange = p.expert > 1 ? `, dispatch in ${upper(precision.dispatch)}, combine in ${upper(precision.combine)}` : "";
  const formats = `GEMMs run in ${upper(precision.gemm)}${exchange}; ${sharded[p.zero_stage]} (ZeRO ${p.zero_stage}).`;
  const sms = overlap.communication_sms > 0 ? ` ${overlap.communication_sms} SMs are set aside for communication.` : "";
  return `${layout} ${steps} ${formats} ${recomputed(recompute)}${sms}`;
}

const upper = (format: string): string => format.toUpperCase();

function recomputed(recompute: Json): string {
  if (recompute.policy === "none") return "Nothing is recomputed.";
  const layers = recompute.layers ? ` in ${recompute.layers} layers of each stage` : "";
  const operators = recompute.operators?.length > 0 ? `: ${recompute.operators.join(", ")}` : "";
  return `Recomputation is ${recompute.policy}${layers}${operators}.`;
}

/** The parallel degrees as in the command's tables: "TP8 PP16 EP64". */
export function degreeWords(plan: Json): string {
  const { parallelism: p } = plan;
  const degree = (label: string, value: number): string => (value > 1 ? `${label}${value}` : "");
  const expert = p.expert_tensor > 1 ? `EP${p.expert}x${p.expert_tensor}` : degree("EP", p.expert);
  const words = [degree("TP", p.tensor), degree("CP", p.context), degree("PP", p.pipeline), expert];
  words.push(`DP${plan.cluster.gpus / (p.tensor * p.context * p.pipeline)}`);
  return words.filter((word) => word !== "").join(" ");
}

/** memory: 72.1 of 80.0 GB, fits with 97 %; of a full device, why it may fit nonetheless */
export function memoryWords(row: Json): string {
  const { peak_bytes: peak, capacity_bytes: capacity } = row.memory;
  const fits = row.interval?.fits_probability;
  const chanceToFit = fits === null || fits === undefined ? "" : `, fits with ${chance(fits)}`;
  const full = fits >= 0.5 && peak >= capacity ? ": the allocator returns what it holds unused" : "";
  return `${(peak / 1e9).toFixed(1)} of ${(capacity / 1e9).toFixed(1)} GB${chanceToFit}${full}`;
}
