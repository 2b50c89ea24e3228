// A deployment that serves: latency and throughput, pools by part of a layer, the frontier, money.
import { append, h, name } from "../dom";
import { counted, duration, gigabytes, grouped, number, perMillion, percent, scaled, span } from "../format";
import type { Json, Result } from "../result";
import { bars } from "../parts/bars";
import { assumedSection, basis } from "../parts/basis";
import { chart, type Series } from "../parts/chart";
import { figures } from "../parts/figures";
import { fitWords } from "../parts/fit";
import { boundBy, towardsMiddle } from "../parts/middle";
import { answer, fold, section } from "../parts/section";
import { amount, table } from "../parts/table";
import { sourcesTable } from "../parts/uncertainty";
import type { Page, View } from "../view";
import { hardware, line, modelName } from "./subject";

const boundColors: Record<string, string> = { weights: "c1", kv: "c3", compute: "c4", links: "c5", latency: "c7", host: "c2" };
const eightOfTen = (quantiles: Json, format: (value: number) => string): string | null => (quantiles?.p10 ? `${span(quantiles, format)} in eight of ten cases` : null);

/** The deployment and its frontier in the middle of the interval, where there is one. */
function inTheMiddle(serving: Json): Json {
  const scaled = towardsMiddle(serving);
  return { ...scaled(serving), frontier: serving.frontier.map(scaled) };
}

function head(serving: Json): HTMLElement[] {
  const interval = serving.interval ?? {};
  return [
    answer("Each user gets a token every ", h("b", {}, duration(serving.tpot_s)), ", each GPU makes ", h("b", {}, number(serving.output_tokens_per_s_per_gpu)), ` output tokens/s; ${boundBy(serving.bound_by)} binds most of a decode step.`),
    figures([
      { name: "Time per output token", value: duration(serving.tpot_s), note: eightOfTen(interval.tpot_s, duration) ?? `${number(1 / serving.tpot_s)} tokens/s of a user` },
      { name: "Time to the first token", value: duration(serving.ttft_s), note: eightOfTen(interval.ttft_s, duration) ?? `${duration(serving.ttft_unloaded_s)} of a request alone` },
      { name: "Output tokens/s of a GPU", value: number(serving.output_tokens_per_s_per_gpu), note: eightOfTen(interval.output_tokens_per_s_per_gpu, number) ?? `${grouped(serving.output_tokens_per_s)} of all` },
      serving.usd_per_million_output_tokens === null ? null : { name: "Million output tokens", value: perMillion(serving.usd_per_million_output_tokens), note: eightOfTen(interval.usd_per_million_output_tokens, perMillion) },
      { name: "Requests in flight", value: grouped(serving.concurrency), note: `memory holds ${grouped(Math.floor(serving.most_concurrency))}` },
    ]),
  ];
}

function frontier(serving: Json, page: Page): HTMLElement {
  const points = (chosen: (one: Json) => boolean): [number, number][] => serving.frontier.filter(chosen).map((one: Json) => [1 / one.tpot_s, one.output_tokens_per_s_per_gpu]);
  const series: Series[] = [
    { name: serving.frontier.every((one: Json) => one.within_limits) ? "frontier" : "frontier, within limits", points: points((one) => !one.dominated && one.within_limits), color: "accent" },
    { name: "frontier, beyond a limit", points: points((one) => !one.dominated && !one.within_limits), color: "c5" },
    { name: "dominated", points: points((one) => one.dominated), color: "c7", scattered: true },
  ];
  series.push({ name: "this deployment", points: [[1 / serving.tpot_s, serving.output_tokens_per_s_per_gpu]], color: "c2", scattered: true });
  return section(
    "Interactivity and throughput",
    "Each point is a number of requests in flight: more of them give a GPU more tokens and a user fewer. Another point dominates one where it is better for one of the two and worse for neither.",
    chart(page, {
      label: "Output tokens per second of a GPU against tokens per second of a user",
      x: { title: "tokens/s of a user", format: number, zero: true },
      y: { title: "output tokens/s of a GPU", format: number, zero: true },
      series: series.filter((one) => one.points.length > 0),
    }),
    fold("The points in numbers", () => frontierTable(serving)),
  );
}

function frontierTable(serving: Json): HTMLElement {
  return table<Json>(
    [
      { title: "Requests in flight", value: (row) => row.concurrency, show: (row) => grouped(row.concurrency) },
      amount("Time per token", (row) => row.tpot_s, duration),
      amount("First token", (row) => row.ttft_s, duration),
      amount("Tokens/s of a GPU", (row) => row.output_tokens_per_s_per_gpu, number),
      amount("Million output tokens", (row) => row.usd_per_million_output_tokens, perMillion),
      { title: "Within limits", value: (row) => (row.within_limits ? "yes" : "no") },
    ],
    serving.frontier,
    { rowClass: (row) => (row.within_limits ? null : "quiet") },
  );
}

function poolSection(pool: Json): HTMLElement {
  const title = pool.pool === "both" ? "A step of decode" : `A step of ${pool.pool}`;
  const degrees = ["tensor", "pipeline", "expert", "attention_data"].filter((key) => pool[key] > 1).map((key) => `${key.replace("_", " ")} ${pool[key]}`);
  const lead = line(`${duration(pool.step_s)} from components alone, for ${scaled(pool.tokens_per_step)} tokens`, `${counted(pool.gpus, "GPU")}, ${counted(pool.instances, "instance")}`, degrees.join(", "), `bound by ${boundBy(pool.bound_by)}`);
  const rows = pool.parts
    .filter((part: Json) => part.seconds > 0 || part.hidden_s > 0)
    .map((part: Json) => ({
      label: h("span", {}, name(part.part), " ", h("small", {}, boundBy(part.bound_by))),
      parts: [{ name: boundBy(part.bound_by), value: part.seconds, color: boundColors[part.bound_by] ?? "accent" }],
      text: h("span", {}, duration(part.seconds), h("small", {}, part.hidden_s > 0 ? `  + ${duration(part.hidden_s)} hidden` : `  ${percent(part.seconds / pool.step_s)}`)),
    }));
  return section(title, lead, bars(rows));
}

function memoryBars(memory: Json): HTMLElement {
  const parts: [string, string, string][] = [["parameters_bytes", "weights", "memory-parameters"], ["kv_bytes", "keys and values", "memory-activations"], ["activations_bytes", "activations", "memory-temporary"], ["buffers_bytes", "buffers and reserves", "memory-reserve"]];
  const rows = memory.stages.map((one: Json) => ({
    label: one.pool === "both" ? "a GPU" : `a GPU of ${one.pool}`,
    parts: parts.map(([key, label, color]) => ({ name: label, value: one[key], color })),
    text: gigabytes(one.peak_bytes),
  }));
  return bars(rows, { lines: [{ name: "capacity", value: memory.capacity_bytes }], format: gigabytes });
}

const fitLead = (memory: Json): string | null => {
  const words = fitWords(memory);
  return words && `An instance that serves at least a request ${words}.`;
};

function more(serving: Json): HTMLElement {
  const rows: [string, string][] = [
    ["Output tokens/s of all GPUs", grouped(serving.output_tokens_per_s)],
    ["Output tokens/s of a node", grouped(serving.output_tokens_per_s_per_node)],
    ["Input tokens/s of a GPU", number(serving.input_tokens_per_s_per_gpu)],
    ["First token of a request alone", duration(serving.ttft_unloaded_s)],
    ["Longest pause between tokens", duration(serving.itl_worst_s)],
    ["Requests that decode, per GPU", number(serving.batch_per_gpu)],
    ["KV cache of a token", `${number(serving.kv_bytes_per_token / 1024)} KiB`],
    ["Tokens in the KV cache, at most", grouped(serving.kv_capacity_tokens)],
    ["Million input tokens", perMillion(serving.usd_per_million_input_tokens)],
    ["Million output tokens, with prompts", perMillion(serving.usd_per_million_tokens_all_in)],
    ["GPUs for the stated demand", grouped(serving.demand_gpus)],
  ];
  return table<[string, string]>(
    [
      { title: "Quantity", value: (row) => row[0] },
      { title: "Value", value: (row) => row[1], number: true },
    ],
    rows.filter(([, value]) => value !== "–"),
    { sortable: false },
  );
}

export const serve: View = {
  kinds: ["serve"],
  title: (result: Result) => `Serving ${modelName(result.json.plan)}`,
  subtitle: (result) => {
    const { plan, basis: on } = result.json;
    return line(hardware(plan, on.device), `${grouped(plan.inference?.input_tokens)} input and ${grouped(plan.inference?.output_tokens)} output tokens`, on.stack && `engine ${on.stack}`, `profile ${on.profile}`);
  },
  render(result, root, page) {
    const { memory, ...json } = result.json;
    const serving = inTheMiddle(json.serving);
    const held = json.measured;
    append(
      root,
      ...head(serving),
      held ? section("Measured", `${held.given} is a TPOT of ${duration(held.tpot_s)}. ${held.sentence}`) : null,
      frontier(serving, page),
      ...serving.pools.map(poolSection),
      section("Memory", fitLead(memory), memoryBars(memory)),
      section("More figures", null, more(serving)),
      serving.interval?.parts?.length ? section("How sure is this?", "Where the width of the intervals comes from.", sourcesTable(serving.interval.parts)) : null,
      serving.notes?.length ? section("What it rests on", null, ...serving.notes.map((note: string) => h("p", {}, name(note)))) : null,
      assumedSection(json.assumed),
      ...basis(json),
    );
  },
};
