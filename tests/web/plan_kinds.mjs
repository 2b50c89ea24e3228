// The pages of `plan`: of trainings and of deployments that serve.
import { printed } from "./look.mjs";

/** Three significant digits, all digits before the point. */
const three = (value) => {
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(value)));
  const [whole, rest] = value.toFixed(decimals).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
};

const chance = (share) => {
  if (share < 0.01) return "< 1 %";
  return share > 0.99 ? "> 99 %" : `${Math.round(share * 100)} %`;
};

/** MFU and tokens/s of a GPU in the middle of the interval, which both go with the time. */
const speedTexts = ({ step, interval }) => {
  const share = interval.tokens_per_s.p50 / step.tokens_per_s;
  const tokens = (step.tokens_per_s_per_gpu * share).toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
  return [`${(step.mfu * share * 100).toFixed(1)} %`, tokens];
};

/** A trained offer in its row: days and thousands of dollars in the middle, and how probable it is to be the best. */
const offerTexts = (site) => [
  site.cluster,
  site.profile,
  ...speedTexts(site.plans[0]),
  `${three(site.plans[0].interval.days.p50)} days (`,
  `$${three(site.plans[0].interval.cost_usd.p50 / 1e3)} k (`,
  `${three(site.campaign.days.p50)} days (`,
  `$${site.price.usd_per_gpu_hour.toFixed(2)} a GPU-hour`,
  chance(site.plans[0].interval.fits_probability),
  chance(site.probability_best),
  chance(site.campaign.probability_deadline),
  chance(site.measured_share),
];

const quick = "--set search.tensor=1 --set search.context=1 --set search.pipeline=1 --set search.micro_batch_size=1";

export const planKinds = [
  {
    name: "plan",
    command: `plan llama-3-8b --gpus 16,32 --cluster h100-dgx,a100-dgx --objective cost --deadline 10d --budget 18k --top 2 ${quick}`,
    shows: ({ sites, question, flips }) => [
      "within 10 days",
      "at most $18 k",
      ...sites.filter((site) => site.plans.length > 0).flatMap(offerTexts),
      ...question.assumptions,
      ...sites.flatMap(({ assumed }) => assumed ?? []).flatMap((row) => [row.name, row.other, `--set ${row.set}`]),
      ...flips.filter((flip) => flip.factor !== null).map((flip) => `×${flip.factor.toFixed(2)}`),
      chance(sites[0].campaign.probability_budget),
    ],
    also: (page, result, check) => printed(page, check, 2),
  },
  {
    name: "plan of one offer without tokens",
    command: "plan llama-3-8b-fsdp-64xh100 --top 1 --set search.tensor=1 --set search.pipeline=1",
    shows: ({ sites }) => ["which plan is the fastest?", `a step of ${three(sites[0].plans[0].interval.time_s.p50)} s (`, chance(sites[0].measured_share)],
  },
  {
    name: "plan that fills the device",
    command: "plan llama-3-8b --gpus 64 --cluster h100-dgx --top 1 --set search.tensor=1 --set search.context=1 --set search.pipeline=2 --set search.micro_batch_size=2",
    shows: ({ sites }) => [`85.0 of 85.0 GB, fits with ${chance(sites[0].plans[0].interval.fits_probability)}: the allocator returns what it holds unused`],
  },
  {
    name: "plan of trainings without an end", // a planned stop comes every 1.68 h, and the restart after it takes 1.96 h
    command: `plan llama-3-8b --gpus 16 --cluster h100-dgx,a100-dgx --deadline 20d --top 1 ${quick} --set campaign.planned_stops_per_week=100 --set campaign.restart_s=7000`,
    exit: 2,
    shows: ({ sites }) => [
      "No offer meets the limits: no training ends.",
      ": without an end, with failures.",
      `None of them ends: ${sites[0].campaign.never}.`,
      ...sites.flatMap(({ cluster, gpus, plans: [{ interval }] }) => [
        `${three(interval.days.p50)} days (`,
        `${gpus} GPUs of ${cluster} – no end · DP${gpus}`,
      ]),
    ],
  },
  {
    name: "plan that does not fit",
    command: "plan llama-3-405b --gpus 8 --cluster a100-dgx",
    exit: 2,
    shows: ({ sites }) => ["No offer has a plan", sites[0].no_plan_because],
  },
  {
    name: "plan deployments",
    command: "plan llama-3-70b --gpus 8,16 --cluster h100-dgx --objective throughput --top 2",
    shows: ({ sites }) =>
      sites.flatMap(({ plans: [{ serving, deployment }], probability_best: best }) => [
        `${three(serving.interval.output_tokens_per_s_per_gpu.p50)} (`,
        `$${three(serving.interval.usd_per_million_output_tokens.p50)} (`,
        `${three(serving.interval.tpot_s.p50 * 1e3)} ms (`,
        chance(best),
        deployment,
        serving.bound_by === "kv" ? "Bound by KV cache" : serving.bound_by,
      ]),
    also: (page, result, check) => printed(page, check, 2),
  },
];
