// Every offer in full, folded: its plans, notes, prices and what the search did.
import { type Child, h, name } from "../dom";
import { duration, gigabytes, grouped, none, percent, signedPercent } from "../format";
import { planToml } from "../parts/basis";
import { fold, section } from "../parts/section";
import { amount, pairs, table } from "../parts/table";
import type { Json } from "../result";
import { priceOf } from "./evidence";
import { type Offer, offerName } from "./offers";
import { chance, daysUnit, rangeAround, rangeIn, usdUnit } from "./ranges";
import { degreeWords } from "./words";

function layers(schedule: Json): string {
  const chunks = schedule.virtual_stages > 1 ? `\u00a0×${schedule.virtual_stages}` : "";
  return `${schedule.kind}${chunks}`;
}

/** Degrees, schedule and what else tells plans of one offer apart. */
function briefly(plan: Json): string {
  const { parallelism, batch, recompute } = plan;
  const words = [degreeWords(plan), layers(plan.schedule), `ZeRO\u00a0${parallelism.zero_stage}`, `micro-batch\u00a0${batch.micro_batch_size}`];
  return [...words, ...(recompute.policy === "none" ? [] : [`recompute ${recompute.policy}`])].join(", ");
}

/** The plan in the middle of its interval, by which plans are ranked. */
const middleOf = (row: Json): Json => row.middle ?? row.step;

/** Returns the faster plans that do not fit as surely as search.min_fit asks for. */
const edgeTable = (rows: Json[]): HTMLElement =>
  table<Json>(
    [
      { title: "Plan", value: (row) => briefly(row.plan) },
      amount("Step", (row) => middleOf(row).time_s, duration),
      amount("Fits with", (row) => row.interval?.fits_probability, chance),
    ],
    rows,
  );

/** Returns the table of an offer's plans, the fastest first: failures are predicted of the first alone. */
export function planTable(offer: Offer): HTMLElement {
  const rows: Json[] = offer.json.plans;
  const alone = offer.risk?.days ? ", steps alone" : "";
  const fastest = middleOf(rows[0]).time_s;
  const range = (row: Json, key: string): ReturnType<typeof rangeAround> => rangeAround(row.interval, key, row[key]);
  return table<Json>(
    [
      { title: "Plan", value: (row) => rows.indexOf(row), show: (row) => `${rows.indexOf(row) + 1}. ${briefly(row.plan)}` },
      amount("Step", (row) => middleOf(row).time_s, duration),
      amount("MFU", (row) => middleOf(row).mfu, percent),
      amount("Tokens/s per GPU", (row) => middleOf(row).tokens_per_s_per_gpu, grouped),
      { title: "Slower by", value: (row) => middleOf(row).time_s, show: (row) => (row === rows[0] ? none : signedPercent(middleOf(row).time_s / fastest - 1)), number: true },
      { title: `Days${alone}`, value: (row) => row.days, show: (row) => days(range(row, "days")), number: true },
      { title: `Cost${alone}`, value: (row) => row.cost_usd, show: (row) => money(range(row, "cost_usd")), number: true },
      amount("Best with", (row) => row.probability_best, chance),
      { title: "Plans like it", value: (row) => row.twins || null, number: true },
      amount("Memory", (row) => row.memory.peak_bytes, gigabytes),
      amount("Fits with", (row) => row.interval?.fits_probability, chance),
    ],
    rows,
  );
}

const days = (range: ReturnType<typeof rangeAround>): string => (range ? rangeIn(range, daysUnit(range.middle)) : none);
const money = (range: ReturnType<typeof rangeAround>): string => (range ? rangeIn(range, usdUnit(range.middle)) : none);

/** What the search did: plans of the space, and what removed them. */
export function searched(search: Json): HTMLElement {
  const rules = search.removed.map((rule: Json) =>
    h("li", {}, `${grouped(rule.plans)}: `, name(rule.rule), rule.example ? h("span", { class: "soft" }, " (", name(rule.example), ")") : null),
  );
  const stopped = search.complete ? "" : " It was stopped.";
  return h("div", {}, `${grouped(search.space)} plans, of which ${grouped(search.evaluated)} were evaluated.${stopped}`, rules.length > 0 ? h("ul", {}, ...rules) : null);
}

function facts(offer: Offer): [string, Child][] {
  const site = offer.json;
  const list: [string, Child][] = [];
  if (site.no_plan_because) list.push(["No plan", name(site.no_plan_because)]);
  if (site.reason) list.push(["Behind the one above", name(site.reason)]);
  if (site.dominated) list.push(["Dominated", "another offer is at least as fast and at least as cheap"]);
  list.push(["Profile", name([site.profile, site.stack && `stack ${site.stack}`].filter(Boolean).join(", "))]);
  if (site.measured_share !== null) list.push(["Measured", percent(site.measured_share)]);
  list.push(["Price", priceOf(offer)]);
  for (const note of site.notes) list.push(["Note", name(note)]);
  list.push(["Searched", searched(site.search)]);
  return list;
}

function detail(offer: Offer): HTMLElement {
  const rows: Json[] = offer.json.plans;
  const parts: Child[] = [pairs(facts(offer))];
  if (rows.length > 0) {
    const reasons = rows.filter((row) => row.reason).map((row) => h("li", {}, name(row.reason)));
    parts.push(h("h3", {}, "Plans"), planTable(offer));
    if (reasons.length > 0) parts.push(fold("Why each is slower than the one above", () => h("ul", {}, ...reasons)));
    parts.push(fold("Best plan as a file", () => h("pre", {}, h("code", {}, planToml(rows[0].plan)))));
  }
  const edge: Json[] = offer.json.edge ?? [];
  if (edge.length > 0) parts.push(fold("Faster plans at the edge of memory", () => edgeTable(edge)));
  return h("div", {}, ...parts);
}

function summary(offer: Offer): HTMLElement {
  const days = offer.risk?.days ?? offer.days;
  const facts = offer.plan ? [days ? rangeIn(days, daysUnit(days.middle)) : "", degreeWords(offer.plan.plan)] : ["no plan"];
  return h("span", {}, offerName(offer), h("span", { class: "soft" }, ` – ${facts.filter((fact) => fact !== "").join(" · ")}`));
}

/** Returns the offers one by one, folded. */
export function appendix(offers: Offer[]): HTMLElement {
  const list = offers.map((offer) => fold(summary(offer), () => detail(offer)));
  return section("Each offer in full", null, h("div", { class: "appendix" }, ...list));
}
