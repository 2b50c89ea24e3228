// The offers of `plan --json`: each cluster of one size with its best plan.
import { type Child, h, name } from "../dom";
import { counted } from "../format";
import { type Speed, speedOf } from "../parts/speed";
import type { Json } from "../result";
import { endless, type Range, rangeAround, rangeOfTrainings } from "./ranges";

/** A training with its failures; infinite where it never ends. */
export interface Risk {
  days: Range | null;
  usd: Range | null;
  json: Json;
}

/** A cluster of one size. */
export interface Site {
  cluster: string;
  gpus: number;
  /** The cost profile where another offer has the same cluster and size; else empty. */
  profile: string;
  rank: number | null;
  /** The best plan; null: there is none. */
  plan: Json | null;
  /** The probability of being the best; null where there is nothing to compare with. */
  best: number | null;
  json: Json;
}

export interface Offer extends Site {
  days: Range | null;
  usd: Range | null;
  step: Range | null;
  /** Of the best plan, in the middle of its interval. */
  speed: Speed | null;
  risk: Risk | null;
}

/** `usd`: of the steps alone, which has whether a price is known. */
function riskOf(campaign: Json, usd: Range | null): Risk | null {
  if (!campaign) return null;
  if (campaign.finished === 0 && campaign.never) return { days: endless, usd: usd && endless, json: campaign };
  return { days: rangeOfTrainings(campaign.days), usd: rangeOfTrainings(campaign.cost_usd), json: campaign };
}

export function siteOf(site: Json, sites: Json[]): Site {
  const same = sites.filter((other) => other.cluster === site.cluster && other.gpus === site.gpus);
  return {
    cluster: site.cluster,
    gpus: site.gpus,
    profile: same.length > 1 ? (site.profile ?? "") : "",
    rank: site.rank ?? null,
    plan: site.plans[0] ?? null,
    best: site.probability_best ?? null,
    json: site,
  };
}

function offerOf(site: Json, sites: Json[]): Offer {
  const base = siteOf(site, sites);
  const { plan } = base;
  const usd = rangeAround(plan?.interval, "cost_usd", plan?.cost_usd);
  return {
    ...base,
    days: rangeAround(plan?.interval, "days", plan?.days),
    usd,
    step: rangeAround(plan?.interval, "time_s", plan?.step?.time_s),
    speed: plan ? speedOf(plan.step, plan.interval) : null,
    risk: riskOf(site.campaign, usd),
  };
}

export const offersOf = (json: Json): Offer[] => json.sites.map((site: Json) => offerOf(site, json.sites));

/** 2,048 GPUs of h100-dgx */
export function offerName(offer: Site): HTMLElement {
  const profile: Child[] = offer.profile ? [" by ", name(offer.profile)] : [];
  return h("span", { class: "offer" }, `${counted(offer.gpus, "GPU")} of `, name(offer.cluster), ...profile);
}

/** The same for a cell: the cluster, and below it its size and cost profile. */
export function offerLabel(offer: Site): HTMLElement {
  const soft = (text: Child): HTMLElement => h("small", { class: "soft" }, text);
  const profile = offer.json.profile ? soft(h("span", {}, "profile ", name(offer.json.profile))) : null;
  return h("span", { class: "offer-label" }, name(offer.cluster), soft(counted(offer.gpus, "GPU")), profile);
}

/** The offer that is recommended, as the command does; null where no offer has a plan. */
export function recommended(json: Json, offers: Offer[]): Offer | null {
  const rank = json.recommendation?.rank;
  return offers.find((offer) => offer.rank === rank && offer.plan) ?? null;
}

/** Those that may be the best where there is no winner, the most probable first. */
export function contenders(json: Json, offers: Offer[]): Offer[] {
  if (json.verdict.winner !== null) return [];
  const level: number = json.verdict.probability_needed;
  const probable = offers.filter((offer) => (offer.best ?? 0) > 0).sort((a, b) => (b.best ?? 0) - (a.best ?? 0));
  let sum = 0;
  return probable.filter((offer) => {
    const wanted = sum < level - 1e-9;
    sum += offer.best ?? 0;
    return wanted;
  });
}
