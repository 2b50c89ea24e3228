// The quantities of a result, each listed once: the JSON and CSV writers, the JSON Schemas and the reader use these
// lists. visit(key, field, unit, meaning) is called in the order of the JSON; an empty unit marks a quantity that CSV
// leaves out. A value that is null was not computed, unless its meaning has another reason.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "model/cost/operator_class.h"
#include "model/result/result.h"

namespace plumbline::reports {

// Visits the quantities of a step. `Times` is model::StepTimes, const or not.
template <class Times, class Visitor>
void visit_step(Times& step, Visitor&& visit) {
  visit("time_s", step.time_s, "s", "seconds of a step");
  visit("tokens_per_s", step.tokens_per_s, "tokens/s", "tokens/s of all GPUs");
  visit("tokens_per_s_per_gpu", step.tokens_per_s_per_gpu, "tokens/s", "tokens/s of a GPU");
  visit("model_tflops_per_gpu", step.model_tflops_per_gpu, "TFLOP/s",
        "TFLOP/s, attention counted in full, no recomputation");
  visit("model_tflops_per_gpu_causal", step.model_tflops_per_gpu_causal, "TFLOP/s",
        "TFLOP/s, attention counted causally");
  visit("mfu", step.mfu, "1", "model FLOP/s over the dense BF16 peak");
  visit("mfu_causal", step.mfu_causal, "1", "the same, attention counted causally");
  visit("bubble_s", step.bubble_s, "s", "seconds of rank 0 outside of slots and optimizer");
  visit("exposed_communication_s", step.exposed_communication_s, "s",
        "seconds in slots of rank 0 in which compute waits for communication");
  visit("optimizer_s", step.optimizer_s, "s", "seconds of the optimizer and what it waits for");
  visit("slots_s", step.slots_s, "s", "seconds of the slots of rank 0");
  visit("chunk_s", step.chunk_s, "s", "seconds of one slot on a middle stage");
  visit("slot_counts", step.slot_counts, "", "slots of rank 0");
  visit("slots_mean_s", step.slots_mean_s, "s", "seconds of the slots, mean over the pipeline ranks");
  visit("exposed_mean_s", step.exposed_mean_s, "s",
        "seconds of exposed communication in slots, mean over the pipeline ranks");
  visit("exposed_gradient_reduce_s", step.exposed_gradient_reduce_s, "",
        "seconds in which the step waits for gradients");
  visit("exposed_parameter_gather_s", step.exposed_parameter_gather_s, "", "seconds in which it waits for parameters");
  visit("exposed_input_s", step.exposed_input_s, "", "seconds in which it waits for its input");
  visit("exposed_host_s", step.exposed_host_s, "", "seconds in which it waits for copies to the host");
  visit("gpu_power_w", step.gpu_power_w, "W", "watts of a GPU, mean over the step");
  visit("energy_j", step.energy_j, "J", "joules of all GPUs in a step");
  visit("clock", step.clock, "1", "clock in slots over that of the profile's rates");
  visit("trained_parameters", step.trained_parameters, "",
        "parameters of adapters next to a frozen model; null: all parameters are trained");
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
  visit("tokens", run.tokens, "tokens", "tokens of the training");
  visit("steps", run.steps, "1", "steps of the training");
  visit("days", run.days, "d", "days of the training");
  visit("gpu_hours", run.gpu_hours, "h", "GPU-hours of the predicted phase");
  visit("cost_usd", run.cost_usd, "USD", "USD of the same");
  visit("goodput", run.goodput, "1", "share of the time that makes progress");
  phases();
  visit("total_gpu_hours", run.total_gpu_hours, "h", "GPU-hours with the phases that are stated");
  visit("total_cost_usd", run.total_cost_usd, "USD", "cost with what is stated, not predicted");
}

// Visits the quantiles of an interval. `Interval` is model::PredictionInterval, const or not; visit(key, Quantiles or
// optional, unit, meaning).
template <class Interval, class Visitor>
void visit_quantiles(Interval& interval, Visitor&& visit) {
  visit("time_s", interval.time_s, "s", "seconds");
  visit("tokens_per_s", interval.tokens_per_s, "tokens/s", "tokens/s");
  visit("days", interval.days, "d", "days of the whole training");
  visit("gpu_hours", interval.gpu_hours, "h", "GPU-hours of the whole training");
  visit("cost_usd", interval.cost_usd, "USD", "USD of the whole training");
  visit("peak_bytes", interval.peak_bytes, "B", "bytes on the fullest rank, of a device without limit");
}

// Visits the quantities of a cluster. `Spread` is model::ClusterSpread, const or not; visit(key, Quantiles, number,
// list or flag, unit, meaning).
template <class Spread, class Visitor>
void visit_cluster(Spread& spread, Visitor&& visit) {
  visit("gpus", spread.gpus, "1", "GPUs of the cluster");
  visit("seeds", spread.seeds, "1", "drawn fleets");
  visit("by_kernels", spread.by_kernels, "", "whether kernels were simulated one by one");
  visit("step_s", spread.step_s, "s", "seconds of a step over the fleets");
  visit("mean_step_s", spread.mean_step_s, "s", "their mean, seconds");
  visit("even_step_s", spread.even_step_s, "s", "seconds of a step of equal GPUs");
  visit("compute_s", spread.compute_s, "s", "seconds in which a GPU computes, over GPUs and fleets");
  visit("wait_s", spread.wait_s, "s", "seconds in which a GPU waits for others, over GPUs and fleets");
  visit("rank_wait_s", spread.rank_wait_s, "s", "seconds of waiting by pipeline rank");
  visit("events", spread.events, "1", "events simulated");
  visit("priors", spread.priors, "", "what GPUs differ in, with sources");
}

// Visits the quantities of a step of reinforcement learning. `Rollout` is model::RolloutResult, const or not; parts()
// is called at the parts' position.
template <class Rollout, class Visitor, class Parts>
void visit_rollout(Rollout& rollout, Visitor&& visit, Parts&& parts) {
  visit("algorithm", rollout.algorithm, "", "grpo, ppo or dapo");
  visit("placement", rollout.placement, "", "colocated, split or asynchronous");
  visit("step_s", rollout.step_s, "s", "seconds of a step, as its parts add up");
  parts();
  visit("generation_tail_s", rollout.tail_s, "s",
        "seconds of generation after nine of ten answers have ended, in the mean of engines");
  visit("longest_answer_tokens", rollout.longest_tokens, "tokens",
        "tokens of a step's longest answer, in the mean of steps");
  visit("cut_share", rollout.cut_share, "1", "share of the answers that reach the longest length");
  visit("engines_idle_share", rollout.engines_idle, "1", "share of the step in which a GPU that generates has no work");
  visit("training_idle_share", rollout.training_idle, "1", "share of the step in which a GPU that trains has no work");
  visit("tokens_per_s", rollout.tokens_per_s, "tokens/s", "prompts and answers that are trained on, over the step");
  visit("tokens_per_s_per_gpu", rollout.tokens_per_s_per_gpu, "tokens/s", "the same of a GPU");
  visit("generated_tokens_per_s", rollout.generated_tokens_per_s, "tokens/s",
        "tokens of answers over the time of generation");
  visit("gpus", rollout.gpus, "1", "GPUs of both pools");
  visit("engine_gpus", rollout.engine_gpus, "1", "GPUs that generate");
  visit("training_gpus", rollout.training_gpus, "1", "GPUs that train");
  visit("instances", rollout.instances, "1", "engines");
  visit("requests_at_once", rollout.requests_at_once, "1", "answers for which an engine has space at once");
  visit("updates", rollout.updates, "1", "updates of the policy in a step");
  visit("weights_bytes", rollout.weights_bytes, "B",
        "bytes of the policy in the engine's format, which each step sends");
}

// Visits the quantities of a deployment that serves.
template <class Visitor>
void visit_serving(const model::ServingResult& serving, Visitor&& visit) {
  visit("concurrency", serving.concurrency, "1", "requests in flight in the whole deployment");
  visit("batch_per_gpu", serving.batch_per_gpu, "1", "requests in flight on a GPU");
  visit("tpot_s", serving.tpot_s, "s", "seconds between output tokens");
  visit("ttft_unloaded_s", serving.ttft_unloaded_s, "s", "seconds to the first token, without a queue");
  visit("itl_worst_s", serving.itl_worst_s, "s", "seconds of the longest pause between tokens");
  visit("output_tokens_per_s", serving.output_tokens_per_s, "tokens/s", "output tokens a second");
  visit("output_tokens_per_s_per_gpu", serving.output_tokens_per_s_per_gpu, "tokens/s",
        "output tokens a second and GPU");
  visit("output_tokens_per_s_per_node", serving.output_tokens_per_s_per_node, "tokens/s",
        "output tokens a second and node");
  visit("input_tokens_per_s_per_gpu", serving.input_tokens_per_s_per_gpu, "tokens/s", "input tokens a second and GPU");
  visit("decode_step_s", serving.decode_step_s, "s", "seconds of a step that decodes");
  visit("tokens_per_step", serving.tokens_per_step, "tokens", "tokens of a step");
  visit("prefill_tokens_per_s_per_gpu", serving.prefill_tokens_per_s_per_gpu, "tokens/s",
        "tokens prefilled a second and GPU");
  visit("decode_tokens_per_s_per_gpu",
        std::optional(serving.batch_per_gpu * serving.tokens_per_step / serving.decode_step_s), "tokens/s",
        "of GPUs that only decode");
  visit("kv_bytes_per_token", serving.kv_bytes_per_token, "B", "bytes of keys and values of a token on a GPU");
  visit("kv_capacity_tokens", serving.kv_capacity_tokens, "tokens", "tokens whose keys and values fit");
  visit("most_concurrency", serving.most_concurrency, "1",
        "most requests in flight of which none waits for memory or for the engine's bound on them");
  visit("usd_per_million_output_tokens", serving.usd_per_million_output_tokens, "USD",
        "cost of a million output tokens, of the GPU time that decodes");
  visit("usd_per_million_input_tokens", serving.usd_per_million_input_tokens, "USD", "cost of a million input tokens");
  visit("usd_per_million_tokens_all_in", serving.usd_per_million_tokens_all_in, "USD",
        "cost of a million output tokens, of all GPUs: with the prompts");
  visit("prefill_gpus", serving.prefill_gpus, "1", "GPUs that prefill");
  visit("decode_gpus", serving.decode_gpus, "1", "GPUs that decode");
  visit("demand_gpus", serving.demand_gpus, "1", "GPUs for the stated demand");
  visit("demand_prefill_gpus", serving.demand_prefill_gpus, "1", "GPUs that prefill the stated demand");
  visit("demand_decode_gpus", serving.demand_decode_gpus, "1", "GPUs that decode the stated demand");
  visit("ttft_s", serving.ttft_s, "s", "seconds to the first token at that load, with its wait");
  visit("usd_per_million_output_tokens_of_demand", serving.usd_per_million_output_tokens_of_demand, "USD",
        "cost of a million output tokens, of the whole GPUs that the demand takes");
}

// Returns the quantity of that name; nothing where there is none, or it is not known.
inline std::optional<double> serving_quantity(const model::ServingResult& serving, std::string_view key) {
  std::optional<double> found;
  visit_serving(serving, [&](std::string_view name, const auto& value, auto...) {
    if (name == key && std::optional(value)) found = static_cast<std::optional<double>>(value);
  });
  return found;
}

// Visits the quantiles of a deployment that serves.
template <class Visitor>
void visit_serving_quantiles(const model::ServingInterval& interval, Visitor&& visit) {
  visit("tpot_s", interval.tpot_s, "s", "seconds of an output token after the first");
  visit("ttft_unloaded_s", interval.ttft_unloaded_s, "s", "seconds to the first token of a request alone");
  visit("output_tokens_per_s_per_gpu", interval.output_tokens_per_s_per_gpu, "tokens/s",
        "output tokens a second and GPU");
  visit("usd_per_million_output_tokens", interval.usd_per_million_output_tokens, "USD",
        "cost of a million output tokens");
  visit("ttft_s", interval.ttft_s, "s", "seconds to the first token at that load");
}

}  // namespace plumbline::reports
