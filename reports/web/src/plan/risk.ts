// The training with its failures: what it takes, and where its time goes.
import { h, name } from "../dom";
import { counted, grouped, none, percent } from "../format";
import { bars, type Part } from "../parts/bars";
import { lostParts } from "../parts/campaign";
import { fold, section } from "../parts/section";
import { amount, table } from "../parts/table";
import type { Json } from "../result";
import { type Offer, offerLabel, offerName } from "./offers";
import { chance, daysUnit, rangeIn, rangeOf, rounded, usdUnit } from "./ranges";

/** Shares of the whole training. */
function lostShares(campaign: Json): Part[] {
  return lostParts(campaign).map((part) => ({ ...part, value: part.value / campaign.mean_time_s.total_s }));
}

/** Returns the sentences about one offer: how often it stops and what that costs. */
function sentences(campaign: Json): string[] {
  const often = campaign.hours_between_failures;
  const stops = rangeOf(campaign.interruptions);
  const goodput = rangeOf(campaign.goodput);
  const words: string[] = [];
  if (campaign.finished === 0) return words;
  if (often !== null) words.push(`A failure stops the run every ${hours(often)}`);
  if (stops?.high === 0) words.push("nine of ten trainings are never interrupted");
  else if (stops) words.push(`it is interrupted ${grouped(stops.middle)} times (${grouped(stops.low)}–${grouped(stops.high)})`);
  if (goodput) words.push(`${percent(goodput.middle)} of its time are steps that count (${percent(goodput.low)} to ${percent(goodput.high)})`);
  return words;
}

function hours(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  if (value >= 48) return `${rounded(value / 24, 3)} days`;
  return value >= 2 ? `${rounded(value, 3)} hours` : `${rounded(value * 60, 2)} minutes`;
}

function assumptions(campaign: Json, finish: Json | null): HTMLElement {
  const interval = campaign.checkpoint_interval_s;
  const checkpoint = interval === null ? "" : `a checkpoint every ${hours(interval / 3600)}; `;
  const spares = counted(campaign.spare_nodes, "spare node") + (campaign.spare_nodes > 0 ? ", whose GPU-hours are in no cost" : "");
  const rates = ["rates of failures of ", name(campaign.reliability), `; ${grouped(campaign.seeds)} campaigns.`];
  const fewest = finish?.gpus ? ` With these degrees ${counted(finish.gpus, "GPU")} are the fewest that end in time.` : "";
  return h("p", { class: "soft" }, `It has ${checkpoint}${spares}; `, ...rates, fewest);
}

function riskTable(offers: Offer[]): HTMLElement {
  return table<Offer>(
    [
      { title: "Offer", value: (offer) => offer.rank, show: (offer) => offerLabel(offer) },
      { title: "Days", value: (offer) => offer.risk?.days?.middle, show: (offer) => (offer.risk?.days ? rangeIn(offer.risk.days, daysUnit(offer.risk.days.middle)) : none), number: true },
      { title: "Cost", value: (offer) => offer.risk?.usd?.middle, show: (offer) => (offer.risk?.usd ? rangeIn(offer.risk.usd, usdUnit(offer.risk.usd.middle)) : none), number: true },
      amount("Goodput", (offer) => offer.risk?.json.mean_goodput, percent),
      amount("Interruptions", (offer) => offer.risk?.json.interruptions.p50, grouped),
      { title: "Between failures", value: (offer) => offer.risk?.json.hours_between_failures, show: (offer) => hours(offer.risk?.json.hours_between_failures), number: true },
      amount("Finishes", (offer) => offer.risk?.json.finished, chance),
    ],
    offers,
    { sortable: false },
  );
}

/** Returns the section; null where no failures were predicted. */
export function risk(offers: Offer[], first: Offer): HTMLElement | null {
  const campaign = first.risk?.json;
  if (!campaign) return null;
  const risky = offers.filter((offer) => offer.risk);
  const rows = risky
    .filter((offer) => offer.risk?.json.finished > 0)
    .map((offer) => ({ label: offerName(offer), parts: lostShares(offer.risk?.json), text: percent(1 - offer.risk?.json.mean_goodput) }));
  const never = campaign.never ? h("p", { class: "bad" }, campaign.finished > 0 ? "Not all of them end: " : "None of them ends: ", name(campaign.never), ".") : null;
  const lead = sentences(campaign).join("; ");
  return section(
    "The risk of the whole training",
    lead === "" ? null : `${lead}.`,
    never,
    rows.length > 0 ? h("h3", {}, "Time that is lost, share of the training") : null,
    rows.length > 0 ? bars(rows, { format: percent }) : null,
    assumptions(campaign, first.json.finish_by),
    risky.length > 1 ? fold("With failures, offer by offer", () => riskTable(risky)) : null,
  );
}
