// The offers side by side: days and cost on one scale each, against the limits.
import { type Child, h } from "../dom";
import { grouped, none, percent } from "../format";
import { legend, legendItem } from "../parts/bars";
import { amount, type Column, table } from "../parts/table";
import type { Json } from "../result";
import { type Offer, offerLabel, recommended } from "./offers";
import { chance, daysUnit, givenIn, type Range, rangeIn, secondsUnit, usdUnit } from "./ranges";
import { type Scale, scaleOf, strips } from "./strips";

type Pick = (offer: Offer) => Range | null;

/** What a cell shows of an offer. */
interface Cell {
  range: Pick;
  failing: Pick;
  /** The key of the probability that the limit holds. */
  holds: string;
}

const cells: Record<"days" | "usd" | "step", Cell> = {
  days: { range: (offer) => offer.days, failing: (offer) => offer.risk?.days ?? null, holds: "probability_deadline" },
  usd: { range: (offer) => offer.usd, failing: (offer) => offer.risk?.usd ?? null, holds: "probability_budget" },
  step: { range: (offer) => offer.step, failing: () => null, holds: "" },
};

const soft = (text: string): HTMLElement => h("small", { class: "soft" }, text);

/** Returns the range in words, with failures where these are predicted, and its bars below: of the steps alone, too. */
function ranged(offer: Offer, cell: Cell, scale: Scale): HTMLElement {
  const range = cell.range(offer);
  const failing = cell.failing(offer);
  const holds = offer.risk?.json[cell.holds] ?? offer.json[cell.holds];
  return h(
    "div",
    { class: "ranged" },
    h("span", {}, rangeIn(failing ?? range, scale.unit)),
    failing ? soft(`${rangeIn(range, scale.unit)} steps alone`) : null,
    scale.limit === null ? null : soft(`within ${givenIn(scale.limit, scale.unitOf(scale.limit))}: ${chance(holds)}`),
    strips(range, failing, scale),
  );
}

function rangeColumn(title: string, cell: Cell, scale: Scale | null): Column<Offer>[] {
  if (!scale) return [];
  const middle = (offer: Offer): number | undefined => (cell.failing(offer) ?? cell.range(offer))?.middle;
  return [{ title, value: middle, show: (offer) => ranged(offer, cell, scale) }];
}

/** The cluster with its size, and the price of a GPU-hour. */
function label(offer: Offer): HTMLElement {
  const usd = offer.json.price?.usd_per_gpu_hour ?? null;
  const shown = offerLabel(offer);
  if (usd !== null) shown.append(soft(`$${usd.toFixed(2)} a GPU-hour`));
  return shown;
}

function speedCell({ speed }: Offer): Child {
  return speed ? h("span", { class: "speed" }, percent(speed.mfu), soft(grouped(speed.tokensPerGpu))) : none;
}

const ranges = (offers: Offer[], cell: Cell): (Range | null)[] =>
  offers.flatMap((offer) => [cell.range(offer), cell.failing(offer)]);

function columns(json: Json, offers: Offer[]): Column<Offer>[] {
  const { deadline_days: deadline, budget_usd: budget } = json.question;
  const days = scaleOf(ranges(offers, cells.days), deadline, daysUnit);
  const list: Column<Offer>[] = [
    { title: "Offer", value: (offer) => offer.rank, show: label },
    ...rangeColumn("Days", cells.days, days),
    ...rangeColumn("Step", cells.step, days ? null : scaleOf(ranges(offers, cells.step), null, secondsUnit)),
    ...rangeColumn("Cost", cells.usd, scaleOf(ranges(offers, cells.usd), budget, usdUnit)),
  ];
  list.push({ title: "MFU, tokens/s a GPU", value: (offer) => offer.speed?.mfu, show: speedCell, number: true });
  list.push(amount("Fits with", (offer) => offer.plan?.interval?.fits_probability, chance));
  if (offers.length > 1) list.push(amount("Best with", (offer) => offer.best, chance));
  list.push(amount("Measured", (offer) => offer.json.measured_share, chance));
  return list;
}

function legendOf(json: Json, offers: Offer[]): HTMLElement {
  const items = [legendItem("accent-soft", "the steps alone, in eight of ten cases")];
  if (offers.some((offer) => offer.risk?.days)) items.push(legendItem("accent", "with failures"));
  const { deadline_days: deadline, budget_usd: budget } = json.question;
  if (deadline !== null) items.push(legendItem("bad", `deadline: ${givenIn(deadline, daysUnit(deadline))}`, "line"));
  if (budget !== null) items.push(legendItem("bad", `budget: ${givenIn(budget, usdUnit(budget))}`, "line"));
  return legend(...items);
}

/** Returns the table of the offers that have a plan, with what its bars mean. */
export function offerTable(json: Json, all: Offer[]): HTMLElement {
  const offers = all.filter((offer) => offer.plan);
  const best = recommended(json, offers);
  const rowClass = (offer: Offer): string | null => (offer === best ? "best" : null);
  return h("div", { class: "offers" }, table(columns(json, offers), offers, { rowClass }), legendOf(json, offers));
}
