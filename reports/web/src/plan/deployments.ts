// The offers of `plan --objective throughput`, each with its best deployment.
import { type Child, h, name } from "../dom";
import { duration, grouped, none, number } from "../format";
import { planToml } from "../parts/basis";
import { type Figure } from "../parts/figures";
import { boundBy, towardsMiddle } from "../parts/middle";
import { fold, section } from "../parts/section";
import { amount, type Column, pairs, table } from "../parts/table";
import type { Json } from "../result";
import { searched } from "./appendix";
import { offerLabel, offerName, type Site, siteOf } from "./offers";
import { chance, endsIn, givenIn, plainUnit, type Range, rangeAround, rangeIn, rounded, secondsUnit, type Unit, usdUnit, valueIn } from "./ranges";
import { type Scale, scaleOf, strips } from "./strips";

const objectives: Record<string, string> = {
  throughput: "the most output tokens/s of a GPU",
  latency: "the shortest time of an output token",
  "tokens-per-dollar": "the most output tokens for a dollar",
};

export const wanted = (objective: string): string => objectives[objective] ?? objective;

/** A quantity of a deployment with its interval. */
interface Quantity {
  title: string;
  /** What follows the value in a sentence. */
  words: string;
  key: string;
  unitOf(value: number): Unit;
  limit(site: Site): number | null;
}

const limitOf = (key: string) => (site: Site): number | null => site.plan?.plan.inference[key] ?? null;
const unlimited = (): null => null;

const quantities: Quantity[] = [
  { title: "Output tokens/s of a GPU", words: " output tokens/s of a GPU", key: "output_tokens_per_s_per_gpu", unitOf: () => plainUnit(""), limit: unlimited },
  { title: "A million output tokens", words: " a million output tokens", key: "usd_per_million_output_tokens", unitOf: usdUnit, limit: unlimited },
  { title: "Time of a token", words: " a token", key: "tpot_s", unitOf: secondsUnit, limit: limitOf("max_tpot_s") },
  { title: "First token", words: " to the first token", key: "ttft_s", unitOf: secondsUnit, limit: limitOf("max_ttft_s") },
];

const rangeOfSite = (site: Site, key: string): Range | null =>
  site.plan ? rangeAround(site.plan.serving.interval, key, site.plan.serving[key]) : null;

/** A cluster with its deployments and frontier in the middle of the best one's interval. */
function inTheMiddle(site: Json): Json {
  if (site.plans.length === 0) return site;
  const scaled = towardsMiddle(site.plans[0].serving);
  const plans = site.plans.map((plan: Json) => ({ ...plan, serving: scaled(plan.serving) }));
  return { ...site, plans, frontier: site.frontier.map(scaled) };
}

export const sitesOf = (json: Json): Site[] => json.sites.map((site: Json) => siteOf(inTheMiddle(site), json.sites));

/** 14.8 requests in flight, lengths and formats: what is served. */
export function questionOf(json: Json): string {
  const inference = (json.plan ?? json.sites[0]?.plans[0]?.plan)?.inference;
  const words: string[] = [];
  if (inference) {
    words.push(`${grouped(inference.input_tokens)} tokens in, ${grouped(inference.output_tokens)} out`);
    words.push(`weights in ${inference.weights.toUpperCase()}, caches in ${inference.kv_cache.toUpperCase()}`);
    if (inference.max_tpot_s) words.push(`a token within ${givenIn(inference.max_tpot_s, secondsUnit(inference.max_tpot_s))}`);
    if (inference.max_ttft_s) words.push(`the first within ${givenIn(inference.max_ttft_s, secondsUnit(inference.max_ttft_s))}`);
  }
  const budget = json.question.budget_usd_per_hour;
  if (budget !== null) words.push(`at most ${givenIn(budget, usdUnit(budget))} an hour`);
  return [...words, `wanted: ${wanted(json.question.objective)}`].join(" · ");
}

/** The answer in a sentence. */
export function answerOf(json: Json, sites: Site[]): Child[] {
  const first = sites.find((site) => site.plan);
  if (!first) return ["No offer has a deployment."];
  const figures = quantities.slice(0, 3).flatMap(({ key, unitOf, words }) => {
    const range = rangeOfSite(first, key);
    if (!range) return [];
    const unit = unitOf(range.middle);
    const ends = range.low === range.high ? "" : ` (${endsIn(range, unit)})`;
    return [`${valueIn(range.middle, unit)}${words}${ends}`];
  });
  const candidates = sites.filter((site) => site.plan).length;
  const likely = candidates > 1 && first.best !== null ? ` It is the best of ${candidates} with ${chance(first.best)}.` : "";
  const broken = json.limits_met ? [] : ["No deployment keeps the limits. The closest: "];
  return [...broken, "Serve on ", offerName(first), ": ", `${figures.join(", ")}.${likely}`];
}

export function tilesOf(first: Site): (Figure | null)[] {
  const { serving } = first.plan;
  const list: (Figure | null)[] = quantities.map(({ title, key, unitOf }) => {
    const range = rangeOfSite(first, key);
    if (!range) return null;
    const unit = unitOf(range.middle);
    const note = range.low === range.high ? "" : `${endsIn(range, unit)} in eight of ten cases`;
    return { name: title, value: valueIn(range.middle, unit), note };
  });
  list.push({ name: "Requests in flight", value: grouped(serving.concurrency), note: `memory holds ${grouped(Math.floor(serving.most_concurrency))}` });
  list.push({ name: "Bound by", value: boundBy(serving.bound_by), note: "most of a decode step" });
  return list;
}

function cell(site: Site, quantity: Quantity, scale: Scale): HTMLElement {
  const range = rangeOfSite(site, quantity.key);
  return h("div", { class: "ranged" }, h("span", {}, rangeIn(range, scale.unit)), strips(range, null, scale));
}

function quantityColumn(quantity: Quantity, sites: Site[]): Column<Site>[] {
  const ranges = sites.map((site) => rangeOfSite(site, quantity.key));
  const scale = scaleOf(ranges, quantity.limit(sites[0]), quantity.unitOf);
  if (!scale) return [];
  return [{ title: quantity.title, value: (site) => rangeOfSite(site, quantity.key)?.middle, show: (site) => cell(site, quantity, scale) }];
}

/** Returns the table of the offers that have a deployment. */
export function siteTable(all: Site[]): HTMLElement {
  const sites = all.filter((site) => site.plan);
  const columns: Column<Site>[] = [
    { title: "Offer", value: (site) => site.rank, show: (site) => offerLabel(site) },
    ...quantities.flatMap((quantity) => quantityColumn(quantity, sites)),
  ];
  if (sites.some((site) => site.best !== null))
    columns.push(amount("Best with", (site) => site.best, chance));
  columns.push({ title: "Limits", value: (site) => (site.plan.within_limits ? 0 : 1), show: (site) => (site.plan.within_limits ? "kept" : "broken") });
  return h("div", { class: "offers" }, table(columns, sites, { rowClass: (site) => (site.rank === 1 ? "best" : null) }));
}

/** Returns the table of an offer's deployments, the best first. */
function deploymentTable(rows: Json[]): HTMLElement {
  return table<Json>(
    [
      { title: "Deployment", value: (row) => row.deployment },
      { title: "Tokens/s of a GPU", value: (row) => row.serving.output_tokens_per_s_per_gpu, show: (row) => rounded(row.serving.output_tokens_per_s_per_gpu, 3), number: true },
      { title: "A million tokens", value: (row) => row.serving.usd_per_million_output_tokens, show: (row) => (row.serving.usd_per_million_output_tokens === null ? none : `$${rounded(row.serving.usd_per_million_output_tokens, 3)}`), number: true },
      amount("Time of a token", (row) => row.serving.tpot_s, duration),
      amount("First token", (row) => row.serving.ttft_s, duration),
      amount("Requests", (row) => row.serving.concurrency, grouped),
      { title: "Bound by", value: (row) => boundBy(row.serving.bound_by) },
      { title: "Limits", value: (row) => (row.within_limits ? 0 : 1), show: (row) => (row.within_limits ? "kept" : "broken") },
    ],
    rows,
  );
}

/** Returns the section of the best deployment. */
export function deploymentSection(first: Site): HTMLElement {
  const { serving, deployment } = first.plan;
  const pools: [string, Child][] = serving.prefill_gpus < first.gpus && serving.prefill_gpus > 0
    ? [["Pools", `${grouped(serving.prefill_gpus)} GPUs prefill, ${grouped(serving.decode_gpus)} decode`]]
    : [];
  const demand: [string, Child][] = serving.demand_gpus === null ? [] : [["GPUs for the demand", grouped(Math.ceil(serving.demand_gpus))]];
  const facts: [string, Child][] = [
    ["Degrees", name(deployment)],
    ...pools,
    ["A decode step", `${duration(serving.decode_step_s)}, ${number(serving.batch_per_gpu)} requests of a GPU`],
    ["Caches", `${grouped(serving.kv_capacity_tokens)} tokens of ${number(serving.kv_bytes_per_token / 1024)} KiB`],
    ["Longest pause", duration(serving.itl_worst_s)],
    ...demand,
  ];
  const others = first.json.plans.length;
  return section("The deployment", null, pairs(facts), others > 1 ? fold(`The ${others} best deployments on it`, () => deploymentTable(first.json.plans)) : null);
}

function detail(site: Site): HTMLElement {
  const price = site.json.usd_per_gpu_hour;
  const facts: [string, Child][] = [
    ["Profile", name(site.json.profile ?? none)],
    ["A GPU-hour", price === null ? "price unknown" : `$${price.toFixed(2)}`],
    ...site.json.notes.map((note: string): [string, Child] => ["Note", name(note)]),
    ["Searched", searched(site.json.search)],
  ];
  if (site.json.no_plan_because) facts.unshift(["No deployment", name(site.json.no_plan_because)]);
  const rows: Json[] = site.json.plans;
  const best = rows.length > 0 ? fold("Best deployment as a file", () => h("pre", {}, h("code", {}, planToml(rows[0].plan)))) : null;
  return h("div", {}, pairs(facts), rows.length > 0 ? deploymentTable(rows) : null, best);
}

/** Returns the offers one by one, folded. */
export function sitesInFull(sites: Site[]): HTMLElement {
  const list = sites.map((site) => {
    const words = site.plan ? site.plan.deployment : "no deployment";
    return fold(h("span", {}, offerName(site), h("span", { class: "soft" }, " – ", name(words))), () => detail(site));
  });
  return section("Each offer in full", null, h("div", { class: "appendix" }, ...list));
}
