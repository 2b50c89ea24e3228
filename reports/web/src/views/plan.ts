// The buyer's page: which offer to train on, what it takes and how sure that is.
import { append, type Child, h, name } from "../dom";
import { duration, grouped, none, percent } from "../format";
import { appendix, planTable } from "../plan/appendix";
import { evidence } from "../plan/evidence";
import { offerTable } from "../plan/offer_table";
import { type Offer, offerName, offersOf, recommended } from "../plan/offers";
import { overturn } from "../plan/overturn";
import { risk } from "../plan/risk";
import { chance, daysUnit, endsIn, givenIn, type Range, rangeAround, rangeIn, secondsUnit, type Unit, usdUnit, valueIn } from "../plan/ranges";
import { answer, degreeWords, memoryWords, planWords, questionWords, theBest } from "../plan/words";
import { assumedSection } from "../parts/basis";
import { type Figure, figures } from "../parts/figures";
import { answer as answerParagraph, fold, notice, section } from "../parts/section";
import { speedOf } from "../parts/speed";
import { pairs } from "../parts/table";
import type { Json, Result } from "../result";
import type { View } from "../view";

function planSection(first: Offer): HTMLElement {
  const row = first.plan;
  const { step, plan } = row;
  const { tokensPerGpu, mfu } = speedOf(step, row.interval);
  const range = rangeAround(row.interval, "time_s", step.time_s);
  const facts: [string, Child][] = [
    ["Degrees", degreeWords(plan)],
    ["Step", `${range ? rangeIn(range, secondsUnit(range.middle)) : none}; ${duration(step.time_s)} from components alone`],
    ["Speed", `${grouped(tokensPerGpu)} tokens/s a GPU, ${percent(mfu)} of the BF16 peak`],
    ["Memory", memoryWords(row)],
  ];
  const left = row.interval?.left_factor;
  if (left && row.interval.left_rows)
    facts.push(["Measured steps", h("span", {}, `took ${left.toFixed(2)} times their prediction in the middle: `, name(row.interval.left_rows))]);
  const others = first.json.plans.length;
  return section(
    "The plan",
    null,
    h("p", { class: "words" }, planWords(plan)),
    pairs(facts),
    others > 1 ? fold(`The ${others} fastest plans on it`, () => planTable(first)) : null,
  );
}

function assumptions(json: Json): HTMLElement | null {
  const { assumptions: assumed, overrides } = json.question;
  if (assumed.length + overrides.length === 0) return null;
  const lines = [
    ...assumed.map((line: string) => h("li", {}, name(line))),
    ...(overrides.length ? [h("li", {}, "given: ", ...overrides.flatMap((line: string, i: number) => [i ? ", " : "", h("code", {}, name(line))]))] : []),
  ];
  return section("What was assumed and given", null, h("ul", {}, ...lines));
}

function without(offers: Offer[]): HTMLElement | null {
  const empty = offers.filter((offer) => !offer.plan);
  if (empty.length === 0) return null;
  const lines = empty.map((offer) => h("li", {}, offerName(offer), ": ", name(offer.json.no_plan_because)));
  return section("Offers without a plan", null, h("ul", {}, ...lines));
}

const tone = (probability: number): Figure["tone"] => (probability >= 0.8 ? "good" : probability >= 0.5 ? "warn" : "bad");

/** A limit, and how probable it is that the training keeps it. */
function limitTile(title: string, first: Offer, key: string): Figure | null {
  const failing = first.risk?.json[key] ?? null;
  const probability = failing ?? first.json[key];
  if (probability === null || probability === undefined) return null;
  return { name: title, value: chance(probability), note: failing === null ? "without failures" : "with failures", tone: tone(probability) };
}

function tiles(json: Json, offers: Offer[], first: Offer): (Figure | null)[] {
  const { deadline_days: deadline, budget_usd: budget } = json.question;
  const { days, usd } = first.risk ?? { days: null, usd: null };
  const candidates = offers.filter((offer) => offer.plan).length;
  const taken = (title: string, range: Range | null, unitOf: (value: number) => Unit): Figure | null => {
    if (!range) return null;
    const unit = unitOf(range.middle);
    const note = range.middle < Infinity ? `${endsIn(range, unit)} in eight of ten cases` : "";
    return { name: title, value: valueIn(range.middle, unit), note };
  };
  return [
    taken("Days with failures", days, daysUnit),
    taken("Cost with failures", usd, usdUnit),
    deadline === null ? null : limitTile(`Ends within ${givenIn(deadline, daysUnit(deadline))}`, first, "probability_deadline"),
    budget === null ? null : limitTile(`Costs at most ${givenIn(budget, usdUnit(budget))}`, first, "probability_budget"),
    candidates > 1 ? { name: `Is ${theBest(json.question.objective)} of ${candidates}`, value: chance(first.best), note: `named winner from ${chance(json.verdict.probability_needed)}` } : null,
    { name: "Rests on measurement", value: chance(first.json.measured_share), note: "share of the step" },
  ];
}

export const plan: View = {
  kinds: ["plan"],
  title: (result: Result) => `Training ${result.json.question.subject}`,
  subtitle: (result: Result) => questionWords(result.json),
  render(result, root) {
    const { json } = result;
    const offers = offersOf(json);
    const first = recommended(json, offers);
    root.classList.add("plan");
    root.append(answerParagraph(...answer(json, offers)));
    if (!json.complete) root.append(notice(true, "The search was stopped: this is the best that was found until then."));
    if (!first) return append(root, without(offers), appendix(offers));
    root.append(figures(tiles(json, offers, first)));
    const lead = offers.length > 1 ? "Days and dollars of each offer's best plan, with failures where these are predicted." : null;
    append(
      root,
      section(offers.length > 1 ? "Offers" : "The offer", lead, offerTable(json, offers)),
      planSection(first),
      assumedSection(first.json.assumed),
      overturn(json),
      risk(offers, first),
      evidence(offers, first),
      without(offers),
      assumptions(json),
      appendix(offers),
    );
  },
};
