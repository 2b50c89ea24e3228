// The quantities of a result, each listed once: the JSON and CSV writers and the reader use these lists. visit(key,
// field, unit) is called in the order of the JSON; an empty unit marks a quantity that CSV leaves out.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "model/cost/operator_class.h"
#include "model/result/result.h"
#include "model/result/serving_result.h"

namespace plumbline::reports {

// Visits the quantities of a step. `Times` is model::StepTimes, const or not.
template <class Times, class Visitor>
void visit_step(Times& step, Visitor&& visit) {
  visit("time_s", step.time_s, "s");
  visit("tokens_per_s", step.tokens_per_s, "tokens/s");
  visit("tokens_per_s_per_gpu", step.tokens_per_s_per_gpu, "tokens/s");
  visit("model_tflops_per_gpu", step.model_tflops_per_gpu, "TFLOP/s");
  visit("model_tflops_per_gpu_causal", step.model_tflops_per_gpu_causal, "TFLOP/s");
  visit("mfu", step.mfu, "1");
  visit("mfu_causal", step.mfu_causal, "1");
  visit("bubble_s", step.bubble_s, "s");
  visit("exposed_communication_s", step.exposed_communication_s, "s");
  visit("optimizer_s", step.optimizer_s, "s");
  visit("slots_s", step.slots_s, "s");
  visit("chunk_s", step.chunk_s, "s");
  visit("slot_counts", step.slot_counts, "");
  visit("slots_mean_s", step.slots_mean_s, "s");
  visit("exposed_mean_s", step.exposed_mean_s, "s");
  visit("exposed_gradient_reduce_s", step.exposed_gradient_reduce_s, "");
  visit("exposed_parameter_gather_s", step.exposed_parameter_gather_s, "");
  visit("exposed_input_s", step.exposed_input_s, "");
  visit("exposed_host_s", step.exposed_host_s, "");
  visit("gpu_power_w", step.gpu_power_w, "W");
  visit("energy_j", step.energy_j, "J");
  visit("clock", step.clock, "1");
}

// Returns the key of an object that stands for a name: no key has blanks.
inline std::string key_of_name(std::string_view name) {
  std::string key(name);
  std::ranges::replace(key, ' ', '_');
  return key;
}

// Visits the seconds of each class of work of a step, 0 where nothing of it ran: visit(key, optional seconds). Nullopt:
// of a step in closed form, which has no classes, and messages of an executed step, which are part of its bubble.
template <class Visitor>
void visit_breakdown(const model::StepTimes& step, Visitor&& visit) {
  for (const auto& part : step.breakdown) visit(key_of_name(part.name), std::optional(part.seconds));
  for (const std::string_view name : model::breakdown_names()) {
    if (std::ranges::find(step.breakdown, name, &model::StepTimes::ClassTime::name) != step.breakdown.end()) continue;
    const bool separated = !step.breakdown.empty() && name != "point-to-point";
    visit(key_of_name(name), separated ? std::optional(0.0) : std::nullopt);
  }
}

// Visits the quantities of a run. `Run` is model::RunCost, const or not; phases() is called at the phases' position.
template <class Run, class Visitor, class Phases>
void visit_run(Run& run, Visitor&& visit, Phases&& phases) {
  visit("tokens", run.tokens, "tokens");
  visit("steps", run.steps, "1");
  visit("days", run.days, "d");
  visit("gpu_hours", run.gpu_hours, "h");
  visit("cost_usd", run.cost_usd, "USD");
  visit("goodput", run.goodput, "1");
  phases();
  visit("total_gpu_hours", run.total_gpu_hours, "h");
  visit("total_cost_usd", run.total_cost_usd, "USD");
}

// Visits the quantiles of an interval. `Interval` is model::PredictionInterval, const or not; visit(key, Quantiles or
// optional, unit).
template <class Interval, class Visitor>
void visit_quantiles(Interval& interval, Visitor&& visit) {
  visit("time_s", interval.time_s, "s");
  visit("tokens_per_s", interval.tokens_per_s, "tokens/s");
  visit("days", interval.days, "d");
  visit("gpu_hours", interval.gpu_hours, "h");
  visit("cost_usd", interval.cost_usd, "USD");
  visit("peak_bytes", interval.peak_bytes, "B");
}

// Visits the quantities of a cluster. `Spread` is model::ClusterSpread, const or not; visit(key, Quantiles, number,
// list or flag, unit).
template <class Spread, class Visitor>
void visit_cluster(Spread& spread, Visitor&& visit) {
  visit("gpus", spread.gpus, "1");
  visit("seeds", spread.seeds, "1");
  visit("by_kernels", spread.by_kernels, "");
  visit("step_s", spread.step_s, "s");
  visit("mean_step_s", spread.mean_step_s, "s");
  visit("even_step_s", spread.even_step_s, "s");
  visit("compute_s", spread.compute_s, "s");
  visit("wait_s", spread.wait_s, "s");
  visit("rank_wait_s", spread.rank_wait_s, "s");
  visit("events", spread.events, "1");
  visit("priors", spread.priors, "");
}

// Visits the quantities of a deployment that serves.
template <class Visitor>
void visit_serving(const model::ServingResult& serving, Visitor&& visit) {
  visit("concurrency", serving.concurrency, "1");
  visit("batch_per_gpu", serving.batch_per_gpu, "1");
  visit("tpot_s", serving.tpot_s, "s");
  visit("ttft_unloaded_s", serving.ttft_unloaded_s, "s");
  visit("itl_worst_s", serving.itl_worst_s, "s");
  visit("output_tokens_per_s", serving.output_tokens_per_s, "tokens/s");
  visit("output_tokens_per_s_per_gpu", serving.output_tokens_per_s_per_gpu, "tokens/s");
  visit("output_tokens_per_s_per_node", serving.output_tokens_per_s_per_node, "tokens/s");
  visit("input_tokens_per_s_per_gpu", serving.input_tokens_per_s_per_gpu, "tokens/s");
  visit("decode_step_s", serving.decode_step_s, "s");
  visit("tokens_per_step", serving.tokens_per_step, "tokens");
  visit("prefill_tokens_per_s_per_gpu", serving.prefill_tokens_per_s_per_gpu, "tokens/s");
  visit("decode_tokens_per_s_per_gpu", serving.batch_per_gpu * serving.tokens_per_step / serving.decode_step_s,
        "tokens/s");  // of GPUs that do nothing else
  visit("kv_bytes_per_token", serving.kv_bytes_per_token, "B");
  visit("kv_capacity_tokens", serving.kv_capacity_tokens, "tokens");
  visit("most_concurrency", serving.most_concurrency, "1");
  visit("usd_per_million_output_tokens", serving.usd_per_million_output_tokens, "USD");
  visit("usd_per_million_input_tokens", serving.usd_per_million_input_tokens, "USD");
  visit("usd_per_million_tokens_all_in", serving.usd_per_million_tokens_all_in, "USD");
  visit("prefill_gpus", serving.prefill_gpus, "1");
  visit("decode_gpus", serving.decode_gpus, "1");
  visit("demand_gpus", serving.demand_gpus, "1");
  visit("demand_prefill_gpus", serving.demand_prefill_gpus, "1");
  visit("demand_decode_gpus", serving.demand_decode_gpus, "1");
  visit("ttft_s", serving.ttft_s, "s");
  visit("usd_per_million_output_tokens_of_demand", serving.usd_per_million_output_tokens_of_demand, "USD");
}

// Returns the quantity of that name; nothing where there is none, or it is not known.
inline std::optional<double> serving_quantity(const model::ServingResult& serving, std::string_view key) {
  std::optional<double> found;
  visit_serving(serving, [&](std::string_view name, const auto& value, const char*) {
    if (name == key && std::optional(value)) found = static_cast<std::optional<double>>(value);
  });
  return found;
}

// Visits the quantiles of a deployment that serves.
template <class Visitor>
void visit_serving_quantiles(const model::ServingInterval& interval, Visitor&& visit) {
  visit("tpot_s", interval.tpot_s, "s");
  visit("ttft_unloaded_s", interval.ttft_unloaded_s, "s");
  visit("output_tokens_per_s_per_gpu", interval.output_tokens_per_s_per_gpu, "tokens/s");
  visit("usd_per_million_output_tokens", interval.usd_per_million_output_tokens, "USD");
  visit("ttft_s", interval.ttft_s, "s");
}

}  // namespace plumbline::reports
