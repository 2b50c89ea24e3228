// A step of reinforcement learning: engines generate answers, and the policy is updated with them.
import { h, name } from "../../dom";
import { days, duration, gigabytes, grouped, percent, span, usd } from "../../format";
import { bars, type Part } from "../../parts/bars";
import { figures } from "../../parts/figures";
import { answer, section } from "../../parts/section";
import { amount, type Column, pairs } from "../../parts/table";
import type { Json } from "../../result";
import { hardware } from "../subject";

const poolColors: Record<string, string> = { engines: "c2", training: "c1", all: "c7", hosts: "c4" };
const engineWords = (rollout: Json): string =>
  `${grouped(rollout.instances)} engines of ${grouped(rollout.engine_gpus / rollout.instances)} GPUs`;

/** The time, rates and costs of a step in the middle of its interval; without one, what its parts add up to. */
export const middleRollout = (rollout: Json): Json => rollout.middle ?? { ...rollout, ...rollout.run, time_s: rollout.step_s };

const secondsOf = (rollout: Json, pool: string): number =>
  rollout.parts.filter((part: Json) => part.pool === pool).reduce((sum: number, part: Json) => sum + part.seconds, 0);

/** Columns of points or subjects that are steps of reinforcement learning. */
export const rolloutColumns: Column<Json>[] = [
  amount("Step", (row) => row.rollout && middleRollout(row.rollout).time_s, duration),
  amount("From components", (row) => row.rollout?.step_s, duration),
  amount("Generation", (row) => row.rollout && secondsOf(row.rollout, "engines"), duration),
  amount("Training", (row) => row.rollout && secondsOf(row.rollout, "training"), duration),
  amount("Tokens/s/GPU", (row) => row.rollout && middleRollout(row.rollout).tokens_per_s_per_gpu, grouped),
  amount("Cost of a step", (row) => row.rollout && middleRollout(row.rollout).step_usd, usd),
  { title: "P10 to P90", value: (row) => row.rollout?.interval_s?.p50, show: (row) => (row.rollout?.interval_s ? span(row.rollout.interval_s, duration) : "–"), number: true },
];

/** The parts of a step, one after another, by the GPUs that have them. */
export const partsOf = (rollout: Json): Part[] =>
  rollout.parts.map((part: Json) => ({ name: part.pool, value: part.seconds, color: poolColors[part.pool] ?? "accent" }));

export function rolloutAnswer(json: Json): HTMLElement {
  const { rollout } = json;
  const { interval_s: interval, run } = rollout;
  const middle = middleRollout(rollout);
  const longest = rollout.parts.reduce((a: Json, b: Json) => (b.seconds > a.seconds ? b : a));
  const parts: (Node | string)[] = [
    "A step of reinforcement learning (", name(`${rollout.algorithm}, ${rollout.placement}`), ") on ", name(hardware(json.plan, json.basis?.device)), " takes ",
    h("b", {}, duration(middle.time_s)), interval ? ` (${span(interval, duration)} in eight of ten cases)` : "", "; its longest part is ", name(longest.name), ` with ${percent(longest.seconds / rollout.step_s)}.`,
  ];
  if (run) parts.push(` ${grouped(run.steps)} steps take `, h("b", {}, days(middle.days)), ...(middle.cost_usd ? [" and cost ", h("b", {}, usd(middle.cost_usd))] : []), ".");
  parts.push(rollout.memory.fits ? " It fits in memory." : " It does not fit in memory.");
  return answer(...parts);
}

export function rolloutFigures(rollout: Json): HTMLElement {
  const { memory, interval_s: interval } = rollout;
  const middle = middleRollout(rollout);
  const fullest = Math.max(memory.training_bytes, memory.generation_bytes);
  return figures([
    { name: "Step", value: duration(middle.time_s), note: interval ? `${duration(rollout.step_s)} from components alone` : `${grouped(rollout.updates)} updates of the policy` },
    { name: "Tokens per second", value: grouped(middle.tokens_per_s), note: `${grouped(middle.tokens_per_s_per_gpu)} per GPU, of those trained on` },
    { name: "Generated per second", value: grouped(rollout.generated_tokens_per_s), note: "tokens, while engines generate" },
    { name: "GPUs without work", value: percent(rollout.engines_idle_share), note: `that generate; ${percent(rollout.training_idle_share)} of those that train` },
    { name: "Memory", value: gigabytes(fullest), note: `of ${gigabytes(memory.capacity_bytes)} on the fullest GPU`, tone: memory.fits ? undefined : "bad" },
    middle.step_usd ? { name: "Cost of a step", value: usd(middle.step_usd) } : null,
  ]);
}

export function rolloutMemory(memory: Json): [string, string][] {
  const facts: [string, string][] = [
    ["Memory of a GPU", `${gigabytes(memory.training_bytes)} in training, ${gigabytes(memory.generation_bytes)} in generation, of ${gigabytes(memory.capacity_bytes)}`],
  ];
  if (memory.host_capacity_bytes) facts.push(["Memory of a host", `${gigabytes(memory.host_bytes)} of ${gigabytes(memory.host_capacity_bytes)}`]);
  return facts;
}

export function rolloutSection(rollout: Json): HTMLElement {
  const { step_s: step } = rollout;
  const bar = partsOf(rollout);
  const rows = rollout.parts.map((part: Json, i: number) => ({
    label: h("span", {}, name(part.name), " ", h("small", {}, name(part.pool))),
    parts: [bar[i]],
    text: h("span", {}, duration(part.seconds), h("small", {}, ` ${percent(part.seconds / step)}`)),
  }));
  const facts: [string, string][] = [
    ["Tail of the generation", `${duration(rollout.generation_tail_s)} after nine of ten answers have ended`],
    ["Longest answer", `${grouped(rollout.longest_answer_tokens)} tokens; ${percent(rollout.cut_share)} of the answers are cut`],
    ["Weights in an engine's format", gigabytes(rollout.weights_bytes)],
    ...rolloutMemory(rollout.memory),
  ];
  return section(
    "From prompts to updates",
    `${engineWords(rollout)} generate, up to ${grouped(rollout.requests_at_once)} answers at once each; ${grouped(rollout.training_gpus)} GPUs train.`,
    bars(rows),
    pairs(facts),
  );
}
