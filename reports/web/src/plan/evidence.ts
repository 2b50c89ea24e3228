// What the answer rests on: measured constants by family, prices, and what would make it surer.
import { h, name } from "../dom";
import { none, percent } from "../format";
import { kindBadge, linked } from "../parts/basis";
import { bars, type Part } from "../parts/bars";
import { section } from "../parts/section";
import { table } from "../parts/table";
import { sourcesTable } from "../parts/uncertainty";
import type { Json } from "../result";
import { type Offer, offerName } from "./offers";
import { chance } from "./ranges";

/** Families below this share of the step, and sources below this share of the variance, are left out. */
const negligible = 0.005;

const familyWords = (key: string): string => key.replace(/_/g, " ");

interface Family {
  name: string;
  share: number;
  measured: number;
}

function familiesOf(offer: Offer): Family[] {
  return Object.entries<Json>(offer.json.measured_by_family ?? {})
    .map(([key, family]) => ({ name: familyWords(key), share: family.share_of_step, measured: family.measured_share_of_step }))
    .filter((family) => family.share >= negligible)
    .sort((a, b) => b.share - a.share);
}

function familyBars(offer: Offer): HTMLElement {
  const rows = familiesOf(offer).map((family) => {
    const parts: Part[] = [
      { name: "measured, fitted or published", value: family.measured, color: "c3" },
      { name: "datasheet or assumed", value: family.share - family.measured, color: "c2" },
    ];
    return { label: family.name, parts, text: percent(family.share) };
  });
  return bars(rows, { format: percent });
}

const perHour = (price: Json): string => {
  if (price.usd_per_gpu_hour === null) return none;
  const span = price.low < price.high ? ` (${price.low.toFixed(2)}–${price.high.toFixed(2)})` : "";
  return `$${price.usd_per_gpu_hour.toFixed(2)}${span}`;
};

const priceSource = (price: Json): HTMLElement =>
  price.usd_per_gpu_hour === null
    ? h("span", {}, "unknown: it lacks ", name(price.missing))
    : h("span", {}, kindBadge(price.kind), " ", linked(price.source ?? ""));

/** Returns one offer of each cluster, whose sizes have one price where it is rented. */
function byPrice(offers: Offer[]): Offer[] {
  const key = (offer: Offer): string => JSON.stringify([offer.cluster, offer.json.price]);
  return offers.filter((offer, i) => offer.plan && offers.findIndex((other) => other.plan && key(other) === key(offer)) === i);
}

function priceTable(offers: Offer[]): HTMLElement {
  return table<Offer>(
    [
      { title: "Cluster", value: (offer) => offer.cluster },
      { title: "A GPU-hour", value: (offer) => offer.json.price.usd_per_gpu_hour, show: (offer) => perHour(offer.json.price), number: true },
      { title: "Ownership", value: (offer) => offer.json.price.ownership },
      { title: "Source", value: (offer) => offer.json.price.source, show: (offer) => priceSource(offer.json.price), wide: true },
    ],
    byPrice(offers),
    { sortable: false },
  );
}

export const priceOf = (offer: Offer): HTMLElement =>
  h("span", {}, `${perHour(offer.json.price)} a GPU-hour, ${offer.json.price.ownership} `, priceSource(offer.json.price));

function narrowing(plan: Json): HTMLElement | null {
  const parts: Json[] = (plan.interval?.parts ?? []).filter((part: Json) => part.share >= negligible);
  if (parts.length === 0) return null;
  const { p10, p50, p90 } = plan.interval.time_s;
  const now = percent((p90 - p10) / 2 / p50);
  return h("div", {}, h("h3", {}, `Why the step is known to ± ${now} only, and what would narrow it`), sourcesTable(parts));
}

/** Returns the section about the offer that is recommended, and how much of the others is measured. */
export function evidence(offers: Offer[], first: Offer): HTMLElement {
  const lead = h("span", {}, `${chance(first.json.measured_share)} of the step of `, offerName(first),
    " rest on measured, fitted or published constants; waits such as the bubble rest on none of their own.");
  return section(
    "What it rests on",
    lead,
    h("h3", {}, "Share of its step, by family of constants"),
    familyBars(first),
    narrowing(first.plan),
    h("h3", {}, "Prices"),
    priceTable(offers),
  );
}
