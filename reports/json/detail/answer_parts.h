// A step, its interval, the training that it is of, and whether that fits in memory, as several outputs have them; a
// step as it was measured, and a step of reinforcement learning.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/memory/memory.h"
#include "model/result/result.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/quantities.h"
#include "reports/text/step/sections.h"
#include "sim/campaign/campaign.h"
#include "sim/goodput/campaign_answer.h"

namespace plumbline::reports {

// Returns the keys of `simulate --json` (json.cc, which instantiates it).
template <class Json>
Json step_keys(const model::StepResult& result, const model::Plan& plan);

void fields(auto& to, const model::PerOp& of) {
  constexpr std::array<const char*, 5> meanings = {"forward", "full backward", "backward for the input",
                                                   "backward for the weights",
                                                   "overlapped pair of forward and backward"};
  for (std::size_t i = 0; i < of.size(); ++i) to(model::to_string(static_cast<model::OpType>(i)), meanings[i], of[i]);
}
template <>
inline constexpr std::string_view definition_name<model::PerOp> = "per_op";

void fields(auto& to, const std::array<std::int64_t, 5>& of) {
  constexpr std::array<const char*, 5> meanings = {
      "forward passes of the pipeline rank", "full backward passes of the pipeline rank",
      "backward passes of inputs alone", "backward passes of weights alone",
      "pairs of a forward and a full backward pass"};
  for (std::size_t i = 0; i < of.size(); ++i) to(model::to_string(static_cast<model::OpType>(i)), meanings[i], of[i]);
}

// Seconds of a step by class of work.
inline auto breakdown_of(const model::StepTimes& step) {
  static const std::map<std::string, const char*, std::less<>> meanings = {
      {"GEMM", "seconds of GEMMs"},
      {"attention", "seconds of attention"},
      {"other_memory-bound", "seconds of other kernels that memory limits"},
      {"casts_and_transposes", "seconds of casts between formats and of transposes"},
      {"optimizer", "seconds of the optimizer"},
      {"router", "seconds of the routing of tokens to experts"},
      {"host", "seconds in which the GPU waits for the host"},
      {"exposed_communication", "seconds of communication during which nothing is computed"},
      {"point-to-point", "seconds of messages between pipeline ranks"},
      {"bubble", "seconds in which the rank waits for others in the pipeline"},
      {"exposed_input", "seconds in which the step waits for its input"},
      {"exposed_copy_to_the_host", "seconds in which the step waits for copies to the host"}};
  return Object([&step](auto& to) {
    visit_breakdown(step, [&to](const std::string& key, std::optional<double> seconds) {
      const auto meaning = meanings.find(key);
      to(key, meaning == meanings.end() ? "" : meaning->second, seconds);
    });
  });
}

void fields(auto& to, const model::StepTimes& of) {
  visit_step(of,
             [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); });
  to("breakdown_s",
     "seconds of rank 0 by class of work; they add up to time_s. 0: nothing of the class ran; null: not separated (all "
     "classes in closed form, messages of an executed step, which are part of its bubble)",
     breakdown_of(of));
}
template <>
inline constexpr std::string_view definition_name<model::StepTimes> = "step";

void fields(auto& to, const model::IntervalPart& of) {
  to("source", "what is uncertain", of.source);
  to("share", "its share of the variance of the logarithm of the time", of.share);
  to("measurement", "what would make it certain", unless_empty(of.measurement));
  to("half_width_after", "half width of the interval after that measurement, relative", of.half_width_after);
}

// A prediction's interval, with all of its keys where there is none.
inline auto uncertainty(const std::optional<model::PredictionInterval>& known) {
  return Defined("interval", [&](auto& to) {
    const model::PredictionInterval interval = known.value_or(model::PredictionInterval());
    visit_quantiles(
        interval, [&](const char* key, const std::optional<model::Quantiles>& found, const char*, const char* meaning) {
          to(key, meaning, QuantilesOrNulls{known ? found : std::nullopt});
        });
    to("fits_probability", "how probable it is that the plan fits in memory",
       where(known.has_value(), interval.fits_probability));
    to("left_factor", "factor on the time by what is left between predictions and measured steps",
       where(known.has_value(), interval.left_factor));
    to("left_rows", "the measured steps behind that factor", unless_empty(interval.left_rows));
    to("draws", "predictions behind the quantiles", interval.draws);
    to("parts", "the parts it is made of", interval.parts);
  });
}

// The step, its rates and the training in the middle of the interval.
struct Middle {
  model::StepTimes step;
  std::optional<model::RunCost> run;
  double peak_bytes = 0;
};

void run_of_middle(auto& to, const std::optional<model::RunCost>& run) {
  to("days", "days of the whole training", run ? std::optional(run->days) : std::nullopt);
  to("gpu_hours", "GPU-hours of the whole training", run ? std::optional(run->gpu_hours) : std::nullopt);
  to("cost_usd", "USD of the whole training", run ? run->cost_usd : std::nullopt);
}

// The contract of simulate has the components under `step` and `run`.
void fields(auto& to, const Middle& of) {
  to("time_s", "seconds of the step", of.step.time_s);
  to("tokens_per_s", "tokens/s", of.step.tokens_per_s);
  to("tokens_per_s_per_gpu", "tokens/s of a GPU", of.step.tokens_per_s_per_gpu);
  to("model_tflops_per_gpu", "TFLOP/s of a GPU", of.step.model_tflops_per_gpu);
  to("mfu", "model FLOPs utilisation: share of the dense BF16 peak", of.step.mfu);
  run_of_middle(to, of.run);
  to("peak_bytes", "bytes on the fullest rank; of a plan that fits, at most those of the GPU", of.peak_bytes);
}
template <>
inline constexpr std::string_view definition_name<std::optional<Middle>> = "middle";

struct PriceKind : Word {};
template <>
inline constexpr std::string_view definition_name<PriceKind> = "price_kind";

inline auto price_of(const model::Known<model::HourlyPrice>& found) {
  return Defined("price", [&](auto& to) {
    const bool known = found.value.has_value();
    const model::HourlyPrice price = found.value.value_or(model::HourlyPrice());
    to("usd_per_gpu_hour", "USD of a GPU-hour; null: unknown", where(known, price.value));
    to.only_where(known, "low", "lower end", price.low);
    to.only_where(known, "high", "upper end", price.high);
    to.only_where(known, "kind", "", PriceKind{Word{price.kind, {}}});
    to.only_where(known, "source", "where it is from", price.source);
    to.only_where(known, "capital_usd_per_gpu_hour", "USD of the hardware", price.capital);
    to.only_where(known, "electricity_usd_per_gpu_hour", "USD of electricity", price.electricity);
    to.only_where(!known, "missing", "why no price is known", found.missing);
  });
}

void fields(auto& to, const model::RunCost& of) {
  const auto& price = of.price().value;
  const double hours = of.gpu_hours, all_hours = of.total_gpu_hours;
  visit_run(
      of, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); },
      [&] {
        to("phases", "phases one by one", List(of.phases, [](auto& phase_to, const model::RunPhaseCost& phase) {
             phase_to("name", "name of the phase", phase.name);
             phase_to("gpu_hours", "hours of one GPU", phase.gpu_hours);
             phase_to("kind", "what kind of thing it is", phase.kind);
             phase_to("source", "where it is from", phase.source);
           }));
      });
  to("goodput_source", "where the goodput is from", of.goodput_source);
  to("ownership", "whether the GPUs are rented or bought", of.ownership);
  to("price_usd_per_gpu_hour", "price of a GPU-hour",
     where(price.has_value(), price.value_or(model::HourlyPrice()).value));
  to("cost_usd_low", "lower end of the cost", of.cost_low_usd(hours));
  to("cost_usd_high", "upper end of the cost", of.cost_high_usd(hours));
  to("total_cost_usd_low", "lower end of that cost", of.cost_low_usd(all_hours));
  to("total_cost_usd_high", "upper end of that cost", of.cost_high_usd(all_hours));
  to("rent", "", price_of(of.rent));
  to("purchase", "", price_of(of.purchase));
  to("energy_mwh", "MWh", of.energy_mwh(hours));
  to("total_energy_mwh", "MWh with the phases that are stated", of.energy_mwh(all_hours));
  to("energy_source", "where the power is from", energy_source(of));
  to("fabric", "parts of the network", Object([&of](auto& part_to) {
       part_to("nics", "number of NICs", of.fabric.nics);
       part_to("switches", "number of switches", of.fabric.switches);
       part_to("links", "links of the fabric", of.fabric.links);
       part_to("usd", "price of the fabric", of.fabric_usd);
     }));
}
template <>
inline constexpr std::string_view definition_name<model::RunCost> = "run";

void fields(auto& to, const model::AssumedKey& of) {
  to("key", "key of a plan", of.key);
  to("name", "what the key is, in words", of.name);
  to("value", "what is predicted with, in words; null: not set", unless_empty(of.value));
  to("given_by", "the software stack; null: the default", unless_empty(of.given_by));
  to("other", "another usual value, in words", of.other);
  to("set", "KEY=VALUE of the other, for --set", of.setting);
  to("time_ratio", "with the other over as predicted: of the step, or of a deployment's time per output token",
     of.ratio);
}
template <>
inline constexpr std::string_view definition_name<std::vector<model::AssumedKey>> = "assumed";

// Of a step that was measured there is no verdict.
inline std::optional<FitInMemory> fit_of_memory(const model::Memory& memory) {
  const model::RankMemory* fullest = model::fullest_rank(memory);
  if (fullest == nullptr || memory.measured) return std::nullopt;
  return FitInMemory{model::fit_of(memory), memory.fits_probability, memory.capacity_bytes - fullest->least_bytes()};
}

inline std::optional<Middle> middle_of(const model::StepResult& result) {
  if (!result.interval) return std::nullopt;
  const bool known = result.run.has_value();
  const model::PredictionInterval& interval = *result.interval;
  // Where it fits, an allocator holds no more than the device; where it does not, the excess is what is missing.
  const bool fits = interval.fits_probability >= 0.5;
  return Middle{model::middle_step(result), known ? model::middle_run(result) : std::nullopt,
                (fits ? interval.peak_bytes.at_most(result.memory.capacity_bytes) : interval.peak_bytes).p50};
}

// Shares of runs are written in percent.
inline constexpr double hundred = 100;

inline auto causes_of(const model::MeasuredStep& measured, const char* time, const char* meaning) {
  return List(measured.causes, [time, meaning](auto& to, const model::MeasuredCause& one) {
    to("cause", "a source of the uncertainty, or a key of the plan", one.name);
    to(time, meaning, one.time_s);
    to("reaches", "whether that is as far as the measured one", one.reaches);
    to("try", "what would show it: a measurement, or an option", unless_empty(one.remedy));
  });
}

// Of a deployment there is no lower bound, below which a measurement would be impossible.
inline Word verdict_of(const model::MeasuredStep& measured, bool bounded) {
  std::vector<std::string_view> words = {"as-predicted", "slower", "faster", "impossible"};
  const std::string_view word = words[static_cast<std::size_t>(measured.verdict)];
  if (!bounded) words.pop_back();
  return {word, words};
}

void rollout_memory_fields(auto& to, const model::RolloutMemory& of) {
  to("training_bytes", "bytes that the fullest GPU that trains needs at least, of a colocated engine that sleeps, too",
     of.training_bytes);
  to("generation_bytes", "bytes of the fullest GPU that generates, with its cache and what of the training stays there",
     of.generation_bytes);
  to("capacity_bytes", "bytes of a GPU", of.capacity_bytes);
  to("host_bytes", "bytes in the memory of the fullest host", of.host_bytes);
  to("host_capacity_bytes", "bytes of memory of a host; null: not known",
     where(of.host_capacity_bytes > 0, of.host_capacity_bytes));
  to("fits", "whether all of these fit", of.fits);
}

void rollout_fields(auto& to, const model::RolloutResult& of) {
  visit_rollout(
      of, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); },
      [&] {
        to("parts",
           "the parts of a step, which follow each other; asynchronous ones of engines and training run at once",
           List(of.parts, [](auto& part_to, const model::RolloutPart& part) {
             part_to("name", "what is done", part.name);
             part_to("pool", "which GPUs have it: engines, training, or all; hosts: none", part.pool);
             part_to("seconds", "seconds of the part", part.seconds);
           }));
      });
  to("memory", "whether both halves fit", Object([&of](auto& part_to) { rollout_memory_fields(part_to, of.memory); }));
  to("step_usd", "USD of a step; null: no price is known", of.step_usd);
  to("run", "of steps of step_s; null without rollout.steps",
     Maybe(of.run, [](auto& run_to, const model::RunCost& run) {
       run_to("steps", "steps of reinforcement learning", run.steps);
       run_to("days", "days of the run", run.days);
       run_to("gpu_hours", "hours of one GPU", run.gpu_hours);
       run_to("cost_usd", "USD of the run; null: no price is known", run.cost_usd);
     }));
  to("interval_s", "seconds of the step; null: no interval was asked for", of.interval_s);
  const auto middle = where(of.interval_s.has_value(), model::middle_rollout(of));
  to("middle", "the step in the middle of its interval, as clusters run it; null: without one",
     Maybe(middle, [](auto& middle_to, const model::RolloutResult& one) {
       middle_to("time_s", "seconds of the step", one.step_s);
       middle_to("tokens_per_s", "prompts and answers that are trained on, over the step", one.tokens_per_s);
       middle_to("tokens_per_s_per_gpu", "the same of a GPU", one.tokens_per_s_per_gpu);
       run_of_middle(middle_to, one.run);
       middle_to("step_usd", "USD of a step", one.step_usd);
     }));
}

// A deployment that serves, as several outputs have it.

// What of a deployment is as its clusters run it; the rest is of its components.
struct ServingMiddle {
  model::ServingResult result;
};
inline std::optional<ServingMiddle> middle_of(const model::ServingResult& result) {
  return result.interval ? std::optional(ServingMiddle{model::middle_serving(result)}) : std::nullopt;
}
void fields(auto& to, const ServingMiddle& of) {
  for (const std::string_view wanted :
       {"tpot_s", "ttft_unloaded_s", "itl_worst_s", "output_tokens_per_s", "output_tokens_per_s_per_gpu",
        "output_tokens_per_s_per_node", "input_tokens_per_s_per_gpu", "usd_per_million_output_tokens",
        "usd_per_million_input_tokens", "usd_per_million_tokens_all_in", "demand_gpus", "ttft_s",
        "usd_per_million_output_tokens_of_demand", "demand_prefill_gpus", "demand_decode_gpus"})
    visit_serving(of.result, [&](std::string_view key, const auto& value, const char*, const char* meaning) {
      if (key == wanted) to(key, meaning, value);
    });
}
template <>
inline constexpr std::string_view definition_name<std::optional<ServingMiddle>> = "serving_middle";

inline Word bound_word(model::ServingBound bound) {
  using enum model::ServingBound;
  Word word = {model::to_string(bound), {}};
  for (const model::ServingBound one : {weights, kv, compute, links, latency, host})
    word.words.push_back(to_string(one));
  return word;
}

void decode_fields(auto& to, const model::ServingResult& result) {
  visit_serving(
      result, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); });
  to("bound_by", "what binds most of a decode step", bound_word(result.bound_by));
}

// Pools, frontier and notes are in the output of serve alone.
void fields(auto& to, const model::ServingResult& of) {
  decode_fields(to, of);
  to("interval", "range with p10, p50 and p90",
     Maybe(of.interval, [](auto& part_to, const model::ServingInterval& interval) {
       visit_serving_quantiles(interval, [&](const char* key, const auto& found, const char*, const char* meaning) {
         part_to(key, meaning, found);
       });
     }));
  to("middle", "", middle_of(of));
}
template <>
inline constexpr std::string_view definition_name<model::ServingResult> = "deployment";

// `in_full`: of one deployment, not among those of many.
void point_fields(auto& to, const model::ServingPoint& point, bool in_full) {
  to("concurrency", "requests in flight", point.concurrency);
  if (in_full) to("batch_per_gpu", "requests in flight on a GPU", point.batch_per_gpu);
  to("tpot_s", "seconds of an output token after the first", point.tpot_s);
  to("ttft_unloaded_s", "seconds to the first token of a request alone", point.ttft_unloaded_s);
  to("output_tokens_per_s_per_gpu", "output tokens a second and GPU", point.output_tokens_per_s_per_gpu);
  to("usd_per_million_output_tokens", "cost of a million output tokens", point.usd_per_million_output_tokens);
  to("within_limits", "whether all limits are met", point.within_limits);
  if (in_full)
    to("dominated", "whether another point is faster for users or GPUs, and slower for neither", point.dominated);
  to("ttft_s", "seconds to the first token at that load", point.ttft_s);
}

// A deployment that was predicted has space for its weights and a request.
inline model::Fit fit_of_serving(const model::ServingResult& result) {
  return model::fit_of(result.fits_probability.value_or(1));
}

// What is free is the space for keys and values.
inline std::optional<FitInMemory> fit_in_memory(const model::ServingResult& result) {
  if (result.pools.empty()) return std::nullopt;
  const double free = std::ranges::min(result.pools, {}, &model::ServingPool::kv_bytes).kv_bytes;
  return FitInMemory{fit_of_serving(result), result.fits_probability, free};
}

// What campaigns look like in JSON, of a plan by itself and of the plans that a search found.

// The fewest GPUs by a date and the numbers that were tried.
void fields(auto& to, const sim::CampaignOnGpus& of) {
  const bool ran = of.reason.empty();
  to("gpus", "number of GPUs", of.gpus);
  to("step_s", "seconds of a step", where(ran, of.step_s));
  to("days", "days of the training", where(ran, of.days));
  to("in_time", "share of the campaigns that end by then", where(ran, of.in_time));
  to("reason", "why not, where it cannot be", unless_empty(of.reason));
}
void fields(auto& to, const sim::FinishBy& of) {
  to("days", "days of the training", of.days);
  to("gpus", "number of GPUs", of.gpus);
  to("tried", "what was tried", of.tried);
}
template <>
inline constexpr std::string_view definition_name<sim::FinishBy> = "finish_by";

void fields(auto& to, const sim::CampaignTime& of) {
  to("useful_s", "seconds in which training advances", of.useful_s);
  to("lost_s", "seconds of work that failures undo", of.lost_s);
  to("checkpoint_s", "seconds in which training waits for checkpoints", of.checkpoint_s);
  to("detect_s", "seconds until a failure is noticed", of.detect_s);
  to("restart_s", "seconds of restarts", of.restart_s);
  to("wait_s", "seconds without enough nodes", of.wait_s);
  to("slow_s", "seconds lost to slow nodes", of.slow_s);
  to("planned_s", "seconds of planned stops", of.planned_s);
  to("total_s", "sum of all", of.total());
}
template <>
inline constexpr std::string_view definition_name<sim::CampaignTime> = "campaign_time";

}  // namespace plumbline::reports
