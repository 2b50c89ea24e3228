#include "sim/goodput/campaign_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "model/economics/economics.h"
#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/result/result.h"
#include "sim/campaign/closed_form.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {
namespace {

using model::Result;

constexpr double hours_per_day = 24;
constexpr double in_nine_of_ten = 0.9;
constexpr auto quantile_parts = {&model::Quantiles::p10, &model::Quantiles::p50, &model::Quantiles::p90};

// Returns the share of campaigns that take at most so many days, where the step's factor varies by itself.
double share_within(const CampaignResult& result, const model::Quantiles& factor, double days) {
  double share = 0;
  for (const double of_seed : result.days_of_seed)
    share += std::isfinite(of_seed) ? factor.share_below(days / of_seed) : 0;
  return result.days_of_seed.empty() ? 0 : share / static_cast<double>(result.days_of_seed.size());
}

// Returns the days over all seeds and the step's factor.
model::Quantiles days_of(const CampaignResult& result, const model::Quantiles& factor) {
  if (factor == model::Quantiles{1, 1, 1}) return result.days;
  const auto quantile = [&](double share) {
    double low = 0, high = result.days.p90 * factor.p90 * 4;
    if (!std::isfinite(high)) return high;
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      (share_within(result, factor, middle) < share ? low : high) = middle;
    }
    return high;
  };
  return {quantile(0.1), quantile(0.5), quantile(0.9)};
}

double tokens_per_step(const model::Plan& plan) {
  return static_cast<double>(plan.batch.global_batch_size) * static_cast<double>(plan.batch.sequence_length);
}

// Returns the tokens of each phase. At most one phase has neither tokens nor a share: it takes what the others leave.
Result<std::vector<double>> tokens_of_phases(const model::Plan& plan) {
  const auto wrong = [&](std::string message, std::string hint) {
    return tl::unexpected(
        model::plan_error(plan, model::ErrorKind::input, "campaign.phase", std::move(message), std::move(hint)));
  };
  std::vector<double> tokens;
  double given = 0;
  std::optional<std::size_t> rest;
  for (const model::CampaignPhaseKeys& phase : plan.campaign.phases) {
    if (!phase.tokens && !plan.run.tokens)
      return wrong(fmt::format("phase '{}' has no tokens", phase.name), "give run.tokens, or tokens to every phase");
    if (!phase.tokens && !phase.share) {
      if (rest) return wrong("two phases have neither tokens nor a share", "one phase may take what the others leave");
      rest = tokens.size();
    }
    tokens.push_back(phase.tokens ? *phase.tokens : phase.share.value_or(0) * plan.run.tokens.value_or(0));
    given += tokens.back();
  }
  constexpr double rounding = 1e-9;
  if (plan.run.tokens && given > *plan.run.tokens * (1 + rounding))
    return wrong(fmt::format("the phases have {:g} tokens, run.tokens {:g}", given, *plan.run.tokens),
                 "run.tokens are those of all phases");
  if (rest) tokens[*rest] = *plan.run.tokens - given;
  return tokens;
}

// `longer`: what steps take as clusters run them, over what their components add up to.
Result<std::vector<CampaignPhase>> phases_of(const Inputs& inputs, double components_s, double longer,
                                             const PredictStep& predict) {
  const model::Plan& plan = inputs.plan;
  if (plan.campaign.phases.empty()) {
    if (!plan.run.tokens)
      return tl::unexpected(model::plan_error(plan, model::ErrorKind::input, "run.tokens",
                                              "a campaign needs the tokens of the training",
                                              "for example --set run.tokens=1e12"));
    return std::vector<CampaignPhase>{{"training", *plan.run.tokens, tokens_per_step(plan), components_s * longer}};
  }
  const auto tokens = TRY(tokens_of_phases(plan));
  std::map<std::pair<std::int64_t, std::int64_t>, double> steps = {
      {{plan.batch.global_batch_size, plan.batch.sequence_length}, components_s * longer}};
  std::vector<CampaignPhase> phases;
  for (const model::CampaignPhaseKeys& keys : plan.campaign.phases) {
    Inputs changed = inputs;
    changed.plan.batch.global_batch_size = keys.global_batch_size.value_or(plan.batch.global_batch_size);
    changed.plan.batch.sequence_length = keys.sequence_length.value_or(plan.batch.sequence_length);
    const std::pair batch(changed.plan.batch.global_batch_size, changed.plan.batch.sequence_length);
    if (!steps.contains(batch)) {
      const auto result = TRY(predict(changed).map_error([&](model::Error error) {
        error.message = fmt::format("phase '{}': {}", keys.name, error.message);
        return error;
      }));
      if (model::fit_of(result.memory) == model::Fit::does_not_fit)
        return model::infeasible("campaign.phase", fmt::format("phase '{}' does not fit in memory", keys.name),
                                 "a shorter sequence, or more ranks of parallelism.context");
      steps[batch] = result.step.time_s * longer;
    }
    phases.push_back({keys.name, tokens[phases.size()], tokens_per_step(changed.plan), steps[batch]});
  }
  return phases;
}

// Returns the costs of the campaign in the middle of its days, by the one formula of a run's cost; where the middle
// never ends, at the mean goodput.
std::optional<model::RunCost> cost_of(const Inputs& inputs, const model::StepResult& step,
                                      const CampaignAnswer& answer) {
  if (answer.result.finished <= 0) return std::nullopt;
  model::Plan plan = inputs.plan;
  double tokens = 0, steps = 0;
  for (const CampaignPhase& phase : answer.input.phases) {
    tokens += phase.tokens;
    steps += phase.tokens / phase.tokens_per_step;
  }
  plan.run.tokens = tokens;
  plan.run.goodput = std::string("campaign");
  const double ideal_s = ideal_seconds(answer.input.phases), middle_s = answer.days.p50 * hours_per_day * 3600;
  const bool ends = std::isfinite(middle_s);
  auto run = model::run_cost(
      plan, ideal_s / (tokens / tokens_per_step(plan)), inputs.cluster, step.step.gpu_power_w,
      model::CampaignGoodput{ends ? ideal_s / middle_s : answer.result.mean_goodput,
                             fmt::format("{} of {} campaigns", ends ? "middle" : "mean", answer.input.seeds)});
  run->steps = steps;
  if (ends) run->days = answer.days.p50;  // to the last digit, which the quotients above lose
  return run;
}

// Runs the campaigns of an answer one after another.
class CampaignRuns {
 public:
  explicit CampaignRuns(const CampaignOptions& options) : options_(options) {}

  // Returns a campaign; over fewer seeds where it was stopped.
  Result<CampaignResult> begun(const CampaignInput& input) {
    const Watch watch = options_.watch.of_part(before_, std::max(expected(), before_ + 1));
    auto result = TRY(run_campaign(input, *options_.tasks, watch));
    ++before_;
    return result;
  }
  Result<CampaignResult> whole(const CampaignInput& input) {
    auto result = TRY(begun(input));
    if (!result.complete) return model::interrupted("", "stopped before all campaigns were run");
    return result;
  }
  bool stopped() const { return options_.watch.stops(); }

 private:
  // Returns how many campaigns there are, about.
  std::size_t expected() const {
    constexpr std::size_t intervals = 5, sizes = 6;
    return 1 + (options_.intervals ? intervals : 0) + options_.spares.size() + (options_.finish_days ? sizes : 0);
  }

  const CampaignOptions& options_;
  std::size_t before_ = 0;
};

// Runs campaigns that differ from one in single values.
Result<void> add_variations(const CampaignOptions& options, CampaignRuns& runs, CampaignAnswer& answer) {
  const CampaignResult& result = answer.result;
  const double best = result.checkpoint_interval_s;
  CampaignInput input = answer.input;
  const auto point = [&](std::string name, double value) -> Result<CampaignPoint> {
    const auto varied = TRY(runs.whole(input));
    return CampaignPoint{std::move(name), value, days_of(varied, answer.step_factor), varied.mean_goodput};
  };
  if (options.intervals && std::isfinite(result.hours_between_failures)) {
    const std::pair<const char*, double> intervals[] = {
        {"half of it", best / 2},
        {answer.input.checkpoint.interval_s > 0 ? "given" : "best", best},
        {"Young", result.young_s},
        {"Daly", result.daly_s},
        {"twice it", best * 2}};
    for (const auto& [name, seconds] : intervals) {
      if (seconds <= 0) continue;
      input.checkpoint.interval_s = seconds;
      answer.intervals.push_back(TRY(point(name, input.checkpoint.pause_s())));
    }
  }
  input.checkpoint.interval_s = best;
  for (const std::int64_t nodes : options.spares) {
    input.spare_nodes = nodes;
    answer.spares.push_back(TRY(point("", static_cast<double>(nodes))));
  }
  return {};
}

// Searches the fewest GPUs on which campaigns end in time, from those of the plan on.
class GpuSearch {
 public:
  GpuSearch(const Inputs& inputs, const CampaignOptions& options, CampaignRuns& runs, const PredictStep& predict,
            const InputsOnGpus& on_gpus, const CampaignAnswer& own, double own_fit)
      : inputs_(inputs),
        options_(options),
        runs_(runs),
        predict_(predict),
        on_gpus_(on_gpus),
        own_(own),
        least_fit_(std::min(own_fit, model::surely_fits)) {}

  // Goes down where the plan itself ends in time, else up, where it looks at near sizes first, since the network of a
  // large one takes long to simulate, and no further than days fall. A size that is refused is left out and decides
  // nothing about the others.
  Result<FinishBy> run() const {
    FinishBy finish;
    finish.days = *options_.finish_days;
    finish.tried = {outcome(own_.input, own_.result)};
    const bool down = finish.tried.front().in_time >= in_nine_of_ten;
    if (down) finish.gpus = own_.input.gpus;
    std::vector<std::int64_t> sizes = divide(down, finish.tried);
    std::size_t low = 0, high = sizes.size(), reach = 1;             // what may be fewer is in [low, high)
    std::int64_t late = down ? 0 : own_.input.gpus;                  // the most GPUs below which none end in time
    std::int64_t enough = std::numeric_limits<std::int64_t>::max();  // the fewest above which none are wanted
    double least_days = own_.days.p50;
    while (low < high) {
      const std::size_t middle = std::min((low + high) / 2, down ? high : low + reach - 1);
      const auto tried = TRY(on(sizes[middle]));
      finish.tried.push_back(tried);
      if (tried.refused) {
        sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(middle));
        --high;
        continue;
      }
      reach *= 2;
      if (tried.in_time >= in_nine_of_ten) finish.gpus = tried.gpus;
      if (finish.gpus == tried.gpus || (!down && tried.reason.empty() && tried.days.p50 >= least_days)) {
        high = middle;
        enough = tried.gpus;
        continue;
      }
      low = middle + 1;
      late = tried.gpus;
      if (tried.reason.empty()) least_days = tried.days.p50;
    }
    std::erase_if(finish.tried, [&](const CampaignOnGpus& tried) {
      return tried.refused && (tried.gpus < late || tried.gpus > enough);
    });
    std::ranges::sort(finish.tried, {}, &CampaignOnGpus::gpus);
    return finish;
  }

 private:
  // Returns the numbers of GPUs, fewer or more than those of the plan, over which its batches and degrees divide.
  // Appends those over which only the micro-batches do, as refused.
  std::vector<std::int64_t> divide(bool down, std::vector<CampaignOnGpus>& refused) const {
    const model::Plan& plan = inputs_.plan;
    const auto& parallelism = plan.parallelism;
    const std::int64_t replica = parallelism.tensor * parallelism.context * parallelism.pipeline;
    const std::int64_t most = plan.batch.global_batch_size / plan.batch.micro_batch_size;
    std::vector<std::int64_t> sizes;
    for (std::int64_t data = 1; data <= most; ++data) {
      const std::int64_t gpus = replica * data;
      if (most % data != 0 || (down ? gpus >= plan.cluster.gpus : gpus <= plan.cluster.gpus)) continue;
      std::string reason = undivided(gpus);
      if (reason.empty())
        sizes.push_back(gpus);
      else
        refused.push_back({.gpus = gpus, .refused = true, .reason = std::move(reason)});
    }
    return sizes;
  }

  // Returns why a batch or a degree does not divide over so many GPUs; empty: all do.
  std::string undivided(std::int64_t gpus) const {
    model::Plan changed = inputs_.plan;
    changed.cluster.gpus = gpus;
    auto layout = model::make_layout(changed, inputs_.architecture);
    for (const model::CampaignPhaseKeys& phase : inputs_.plan.campaign.phases) {
      if (!layout) break;
      changed.batch.global_batch_size = phase.global_batch_size.value_or(inputs_.plan.batch.global_batch_size);
      layout = model::make_layout(changed, inputs_.architecture);
    }
    return layout ? "" : layout.error().message;
  }

  Result<CampaignOnGpus> on(std::int64_t gpus) const {
    const auto refuse = [&](const model::Error& error) {
      return CampaignOnGpus{.gpus = gpus, .refused = true, .reason = error.message};
    };
    if (runs_.stopped()) return model::interrupted("--finish-by", "stopped before the sizes were tried");
    const auto inputs = on_gpus_(gpus);
    if (!inputs) return refuse(inputs.error());
    const auto step = predict_(*inputs);
    if (!step) return refuse(step.error());
    if (const double fit = step->memory.fit_probability(); fit < least_fit_)
      return CampaignOnGpus{.gpus = gpus,
                            .reason = model::fit_of(fit) == model::Fit::does_not_fit
                                          ? std::string("it does not fit in memory")
                                          : fmt::format("at the edge: fits with {:.0f} %", std::floor(fit * 100))};
    CampaignInput input = *inputs->campaign;
    const auto phases = phases_of(*inputs, step->step.time_s, own_.longer, predict_);
    if (!phases) return refuse(phases.error());
    input.phases = *phases;
    input.seeds = options_.seeds;
    input.seed = options_.seed;
    const auto result = TRY(runs_.whole(input));
    return outcome(input, result);
  }

  CampaignOnGpus outcome(const CampaignInput& input, const CampaignResult& result) const {
    return {.gpus = input.gpus,
            .step_s = input.phases.back().step_s,
            .days = days_of(result, own_.step_factor),
            .in_time = share_within(result, own_.step_factor, *options_.finish_days)};
  }

  const Inputs& inputs_;
  const CampaignOptions& options_;
  CampaignRuns& runs_;
  const PredictStep& predict_;
  const InputsOnGpus& on_gpus_;
  const CampaignAnswer& own_;
  double least_fit_;  // of other sizes: those of a plan at the edge may be there, too
};

}  // namespace

double CampaignAnswer::share_within(double most_days) const {
  return sim::share_within(result, step_factor, most_days);
}

double CampaignAnswer::share_within_usd(double most) const {
  return usd_per_day ? sim::share_within(result, usd_factor, most / *usd_per_day) : 0;
}

std::optional<model::Quantiles> CampaignAnswer::usd() const {
  if (!usd_per_day) return std::nullopt;
  model::Quantiles usd = days_of(result, usd_factor);
  for (const auto part : quantile_parts) usd.*part *= *usd_per_day;
  return usd;
}

Result<CampaignAnswer> campaign_answer(const Inputs& inputs, const model::StepResult& step,
                                       const CampaignOptions& options, const PredictStep& predict,
                                       const InputsOnGpus& on_gpus) {
  CampaignAnswer answer;
  answer.input = *inputs.campaign;
  const double middle_s = model::middle_step(step).time_s;
  answer.longer = middle_s / step.step.time_s;
  answer.input.phases = TRY(phases_of(inputs, step.step.time_s, answer.longer, predict));
  answer.input.seeds = options.seeds;
  answer.input.seed = options.seed;
  if (step.interval)
    for (const auto part : quantile_parts) answer.step_factor.*part = step.interval->time_s.*part / middle_s;
  answer.usd_factor = answer.step_factor;
  CampaignRuns runs(options);
  answer.result = TRY(runs.begun(answer.input));
  answer.input.seeds = std::ssize(answer.result.days_of_seed);
  answer.days = days_of(answer.result, answer.step_factor);
  answer.run = cost_of(inputs, step, answer);
  if (answer.run && answer.run->price().value) {
    const double daily = hours_per_day * static_cast<double>(answer.input.gpus) * answer.run->price().value->value;
    answer.usd_per_day = daily;
    if (step.interval && step.interval->days && step.interval->cost_usd)
      for (const auto part : quantile_parts)
        answer.usd_factor.*part *= (*step.interval->cost_usd).*part / ((*step.interval->days).*part * daily);
    if (const double usd = answer.usd()->p50; std::isfinite(usd)) {
      *answer.run->total_cost_usd += usd - *answer.run->cost_usd;
      answer.run->cost_usd = usd;
    }
  }
  const auto add_tables = [&]() -> Result<void> {
    if (answer.result.finished > 0) TRY(add_variations(options, runs, answer));
    if (options.finish_days)
      answer.finish =
          TRY(GpuSearch(inputs, options, runs, predict, on_gpus, answer, step.memory.fit_probability()).run());
    return {};
  };
  const auto tables = add_tables();
  if (!tables && tables.error().kind != model::ErrorKind::interrupted) return tl::unexpected(tables.error());
  answer.complete = answer.result.complete && tables.has_value();
  return answer;
}

}  // namespace plumbline::sim
