// The result of a step: one type for every fidelity and for measured steps. Times are in seconds. A value that was not
// computed is nullopt and prints as null, never as zero.
//
// A measured step next to its prediction.
//
// What serving a model on a deployment costs in its steady state: times, rates, space for keys and values, money.
// Names are those of vLLM, SGLang and TensorRT-LLM: TTFT is the time to the first token, TPOT the time per output token
// after it, ISL and OSL the lengths of inputs and outputs, concurrency the requests in flight.
//
// A prediction in the middle of its interval: as clusters run the step, half of which are shorter. Without an interval
// it is what the components add up to.
//
// The interval of a prediction: what is likely, where its uncertainty comes from, and what measurement would narrow it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/economics/ownership.h"
#include "model/economics/prices.h"

namespace plumbline::model {

// Nine of ten standard normal numbers are below it.
inline constexpr double normal_p90 = 1.2815515655446004;

// Eight of ten values lie between p10 and p90.
struct Quantiles {
  double p10 = 0, p50 = 0, p90 = 0;
  // Half of the interval over its middle.
  double half_width() const { return p50 > 0 ? (p90 - p10) / 2 / p50 : 0; }
  bool contains(double value) const { return p10 <= value && value <= p90; }
  Quantiles scaled(double factor) const { return {p10 * factor, p50 * factor, p90 * factor}; }
  // Returns the quantiles of what is measured where nothing above `most` can be.
  Quantiles at_most(double most) const { return {std::min(p10, most), std::min(p50, most), std::min(p90, most)}; }
  // Returns the share of values below this one, with a normal logarithm of its own width on either side of the middle.
  double share_below(double value) const;
  bool operator==(const Quantiles&) const = default;
};

// Returns the quantile of at least one value, interpolated at place p * (n + 1) of the n sorted ones: another value is
// below the result with probability p.
double quantile_of(std::vector<double> values, double probability);
Quantiles quantiles_of(std::vector<double> values);

// A source of uncertainty. Shares are of the variance of ln(step time) and add up to 1 over all parts.
struct IntervalPart {
  std::string source;  // "GEMM constants", "expert load", "what is left", ...
  double share = 0;
  // What would narrow it, in words ("combine at 20 SMs on two of your nodes"), and the half-width of the step time
  // after that, found by conditioning the same draws on it; neither where no measurement of components would.
  std::string measurement;
  std::optional<double> half_width_after;
};

struct PredictionInterval {
  Quantiles time_s;
  Quantiles tokens_per_s;
  std::optional<Quantiles> days, gpu_hours, cost_usd;  // of the run; nothing without its tokens, and its price
  Quantiles peak_bytes;                                // of the fullest rank, on a device without limit
  double fits_probability = 1;                         // that the fullest rank's least is below the capacity
  // By what factor steps of this software took longer than predicted, in the middle, and the rows that it rests on; the
  // quantiles above contain it.
  double left_factor = 1;
  std::string left_rows;
  std::size_t draws = 0;            // predictions behind the interval
  std::vector<IntervalPart> parts;  // by falling share
};

// A key of the software that a plan leaves open, and what else it usually is.
struct AssumedKey {
  std::string key, name;     // "stack.dispatcher", "dispatcher"
  std::string value, other;  // as words: what is predicted with, and another usual value
  std::string setting;       // KEY=VALUE of the other
  std::string given_by;      // "stack megatron-core-2025"; empty: the default
  double ratio = 1;          // of the step, or of a deployment's time per output token: with the other over without
};

// impossible: below the lower bound. Else slower than P90, faster than P10, or between them.
enum class MeasuredVerdict : std::uint8_t { as_predicted, slower, faster, impossible };

// A way in which FLOPs are counted, and the step that a measured rate means by it.
struct RateConvention {
  std::string name;  // "model FLOPs, causal attention, BF16 peak"
  double time_s = 0;
};

// What may have made a step longer, or shorter, than the middle of its prediction.
struct MeasuredCause {
  std::string name;
  double time_s = 0;     // of the step that it makes alone: at P90 (P10) of an uncertainty, or of the changed plan
  bool reaches = false;  // as far as the measured step
  std::string remedy;    // what would show it, in words; may be empty
};

// What a figure of memory counts: all of the device, what the allocator reserved, or tensors.
enum class MemoryCount : std::uint8_t { device, reserved, allocated };

struct MeasuredMemory {
  double peak_bytes = 0;   // of the fullest GPU, all of the device
  double share_below = 0;  // of the predicted peaks
  MemoryCount counted = MemoryCount::device;
  double added_bytes = 0;  // part of the peak that was not counted: as predicted
};

// How much of a training log a step is. Its lines may be means over several steps.
struct MeasuredLog {
  std::string format;                   // "Megatron-LM"
  std::int64_t steps = 0;               // lines whose median is taken
  std::int64_t warm_up = 0;             // lines before them, at least the first of several
  std::int64_t pauses = 0;              // lines among them that took longer or shorter than the others
  std::int64_t damaged = 0;             // lines that are cut, or have another inside
  double low = 1, high = 1;             // P10 and P90 of the steps over their median
  std::optional<double> tflops;         // of a GPU, as the log states it
  std::optional<RateConvention> count;  // of these FLOPs, closest to the step's time
};

struct MeasuredStep {
  std::string given;  // "230TFLOP/s"
  double time_s = 0;
  double share_below = 0;  // of the predicted steps, which are faster
  MeasuredVerdict verdict = MeasuredVerdict::as_predicted;
  // The one that comes closest to the prediction first, which time_s follows; none for times and tokens.
  std::vector<RateConvention> conventions;
  std::vector<MeasuredCause> causes;  // the largest first
  std::optional<MeasuredMemory> memory;
  std::optional<MeasuredLog> log;  // that it was read from
};

using PerOp = std::array<std::optional<double>, 5>;  // indexed by OpType (model/schedule/schedule.h): F, B, I, W, FB

struct StepTimes {
  double time_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0;  // attention counted non-causally
  double model_tflops_per_gpu_causal = 0;
  double mfu = 0;  // model FLOPs utilisation: share of the dense BF16 peak
  double mfu_causal = 0;
  std::optional<double> bubble_s;                 // rank 0: step - slots - optimizer
  std::optional<double> exposed_communication_s;  // rank 0: inside slots, compute waits for communication
  std::optional<double> optimizer_s;
  // Time that the step waits for traffic that overlaps with it.
  std::optional<double> exposed_gradient_reduce_s;   // from the last slot of any rank to the last reduction
  std::optional<double> exposed_parameter_gather_s;  // rank 0: in slots, compute waits for gathered parameters
  std::optional<double> exposed_input_s;             // wait for the step's tokens
  std::optional<double> exposed_host_s;              // wait for the copy of the parameters to the host
  PerOp slots_s;                                     // totals on rank 0
  PerOp slots_mean_s;                                // the same, mean over the pipeline ranks
  PerOp exposed_mean_s;                              // part of those in which compute waits for communication
  PerOp chunk_s;                                     // one chunk of each kind on a middle stage
  // The following are known where the profile has a power model (model/cost/power_model.h).
  std::optional<double> gpu_power_w;         // mean over the step and the GPUs
  std::optional<double> energy_j;            // of all GPUs
  PerOp clock;                               // in slots, mean over the pipeline ranks: over that of the profile's rates
  std::optional<double> trained_parameters;  // of adapters; nothing: all parameters are trained
  // The following are printed only, outside the JSON contract: counts behind slots_s, busy time by class on rank 0.
  std::array<std::int64_t, 5> slot_counts{};
  struct ClassTime {
    std::string name;  // "GEMM", "attention", ...
    double seconds = 0;
  };
  std::vector<ClassTime> breakdown;  // adds up to time_s
};

struct RankMemory {
  std::int64_t rank = 0;             // pipeline rank
  std::vector<std::int64_t> stages;  // stages it holds
  // The bytes at the rank's highest moment; they add up to the peak.
  double parameters_bytes = 0, gradients_bytes = 0, optimizer_bytes = 0;
  double gathered_bytes = 0;       // part of the parameters: shards of other ranks that it has gathered
  double activations_bytes = 0;    // kept between the phases of micro-batches in flight
  double temporary_bytes = 0;      // tensors that live in the running slot only
  double communication_bytes = 0;  // messages, dispatch and combine buffers, gradient buckets, library buffers
  double reserve_bytes = 0;        // driver context, workspaces, unused memory of the allocator
  double peak_bytes = 0;
  double low_bytes = 0, high_bytes = 0;  // the interval of the peak, from what the allocator holds unused
  double allocated_bytes = 0;            // tensors: what a framework states as allocated
  double segments_bytes = 0;             // what its allocator holds for them: what it states as reserved
  std::string largest;                   // the largest single item, in words
  std::string peak_operator;             // what runs at the highest moment, in words
  double activations_peak_bytes = 0;     // the most that is kept at any moment
  // Parts of the peak: tensors whose size goes with the rows of this rank's experts, which are those of the mean rank;
  // context, workspaces and connections.
  double routed_bytes = 0, library_bytes = 0;
  // What the allocator holds in addition to tensors on a device without limit: at least, usually and at most. Of a full
  // device the peak has as much of it as there is space for.
  double unused_low_bytes = 0, unused_bytes = 0, unused_high_bytes = 0;
  double buffers_bytes() const { return temporary_bytes + communication_bytes; }
  double host_bytes = 0;  // what it holds in the memory of its host
  // Returns what the rank needs when its allocator has returned all that it can, which decides whether it fits.
  double least_bytes() const { return high_bytes > low_bytes ? low_bytes : peak_bytes; }
};

struct Memory {
  double peak_bytes = 0;
  double capacity_bytes = 0;
  bool fits = true;                        // the highest peak is below the capacity, and the hosts hold the rest
  std::optional<double> fits_probability;  // as clusters run it; nothing: not drawn
  std::vector<RankMemory> ranks;
  bool measured = false;                           // ranks have a peak only: the most bytes in use on a device
  double host_bytes = 0, host_capacity_bytes = 0;  // of the host whose GPUs hold most there; capacity 0: unknown
  double fit_probability() const { return fits_probability.value_or(fits ? 1 : 0); }
  bool host_fits() const { return host_capacity_bytes == 0 || host_bytes <= host_capacity_bytes; }
};

struct RunPhaseCost {
  std::string name;
  double gpu_hours = 0;
  std::string kind;  // "predicted" or "published"
  std::string source;
};

// total_* include the stated phases; the other costs are those of the predicted phase alone.
struct RunCost {
  double tokens = 0;
  double steps = 0;
  double days = 0;
  double gpu_hours = 0;
  std::optional<double> cost_usd;
  double goodput = 1.0;  // useful seconds over all; days, GPU-hours and costs are those of all
  std::vector<RunPhaseCost> phases;
  double total_gpu_hours = 0;
  std::optional<double> total_cost_usd;
  std::string ownership;              // "rent" or "purchase": the price behind the costs above
  Known<HourlyPrice> rent, purchase;  // per GPU-hour
  const Known<HourlyPrice>& price() const { return ownership == "purchase" ? purchase : rent; }
  Known<double> power_w;         // power of a GPU with its share of host, fabric and building
  bool power_predicted = false;  // the GPU's part is that of the step; else its TDP or the plan's limit
  FabricParts fabric;            // parts of a fabric for the plan's GPUs
  std::optional<double> fabric_usd;
  std::string goodput_source;  // in words: "without failures", ...

  // The cost of that many GPU-hours at either end of the price's range.
  std::optional<double> cost_low_usd(double hours) const;
  std::optional<double> cost_high_usd(double hours) const;
  std::optional<double> energy_mwh(double hours) const;
};

// Part of the time that a step takes beyond its lower bound.
struct LostTime {
  std::string cause;  // in words: "bubble", "launch gaps", ...
  double seconds = 0;
  std::string remedy;  // what would remove it
};

struct ProvenanceEntry {
  Parameter parameter;
  double share_of_step = 0;  // share of the step's time that depends on this constant
};

// A part of a step of reinforcement learning. Parts of different pools follow each other, or run at once where the
// placement is asynchronous.
struct RolloutPart {
  std::string name;
  std::string pool;  // "engines", "training", "hosts", which no GPU has, or "all": both wait for it
  double seconds = 0;
};

struct RolloutMemory {          // bytes of the fullest GPU of each half
  double training_bytes = 0;    // what trains needs at least (RankMemory); colocated with an engine that sleeps
  double generation_bytes = 0;  // of an engine with its cache; colocated with what stays of the training
  double host_bytes = 0;        // of the host whose GPUs put most there
  double capacity_bytes = 0, host_capacity_bytes = 0;  // 0: unknown
  bool fits = true;
};

struct RolloutResult {
  std::string algorithm, placement;
  double step_s = 0;
  std::vector<RolloutPart> parts;
  double tail_s = 0;          // of the generation, after nine of ten answers have ended, in the mean of the engines
  double longest_tokens = 0;  // of a step's answers, in the mean of steps
  double cut_share = 0;       // of the answers, which reach the longest length
  double engines_idle = 0, training_idle = 0;  // shares of the step in which a GPU of the pool has no work
  double tokens_per_s = 0;                     // prompts and answers that are trained on, over the step
  double tokens_per_s_per_gpu = 0;             // of all GPUs
  double generated_tokens_per_s = 0;           // answers over the time of generation
  std::int64_t gpus = 0, engine_gpus = 0, training_gpus = 0, instances = 0;
  double requests_at_once = 0;  // of an instance, for which it has space
  std::int64_t updates = 0;     // of the policy in a step
  double weights_bytes = 0;     // of the policy in the engine's format
  RolloutMemory memory;
  std::optional<double> step_usd;
  // Of rollout.steps, by steps, days, gpu_hours, cost_usd and goodput; nothing: without them.
  std::optional<RunCost> run;
  std::optional<Quantiles> interval_s;  // of the step

  // Returns the seconds of the parts of a pool.
  double seconds_of(std::string_view pool) const {
    double seconds = 0;
    for (const RolloutPart& part : parts)
      if (part.pool == pool) seconds += part.seconds;
    return seconds;
  }
  // Returns the seconds of the step where parts of the engines and of the training take that many times as long. A rule
  // is computed by the hosts, after the generation of the answers that it is about.
  double step_with(double engines, double training) const {
    const double generated = engines * seconds_of("engines");
    const double trained = seconds_of("hosts") + training * seconds_of("training");
    return seconds_of("all") + (placement == "asynchronous" ? std::max(generated, trained) : generated + trained);
  }
};

// Seconds by which the bubble (StepTimes::bubble_s) and the step would be shorter without a cause. The causes are
// removed one after the other, in this order: "slow ranks", "imbalance", "jitter", "point-to-point", "uneven stages"
// (every slot takes the mean of its type); "schedule" is the rest, and "input and host" what a step waits for besides.
// The parts add up to the bubble. A cause that makes slots longer shortens the bubble and lengthens the step.
struct BubblePart {
  std::string cause;
  double seconds = 0;  // of the bubble
  double step_s = 0;
};

// How a step of all GPUs of a cluster spreads over ranks and draws, and what its bubble consists of.
struct ClusterSpread {
  std::int64_t gpus = 0;
  std::int64_t seeds = 0;
  bool by_kernels = false;
  Quantiles step_s;  // over seeds
  double mean_step_s = 0;
  double even_step_s = 0;           // without jitter, imbalance and slow ranks
  Quantiles compute_s;              // over GPUs and seeds: seconds in which a GPU computes
  Quantiles wait_s;                 // over GPUs and seeds: seconds in which it waits for others
  std::vector<double> rank_wait_s;  // [pipeline rank] mean over its GPUs and seeds
  std::vector<BubblePart> bubble;
  std::int64_t events = 0;          // of all runs
  std::vector<std::string> priors;  // sentences: what the draws rest on, with sources
};

struct StepResult {
  std::string fidelity;  // closed-form | step | cluster
  std::string profile;
  std::string stack;  // of the software; empty: none
  std::string device;
  std::vector<std::string> warnings;  // sentences about inputs that do not belong together
  std::vector<AssumedKey> assumed;    // those that the plan leaves open and that move the step, where it was asked for
  StepTimes step;
  std::optional<double> bound_s;                      // proven lower bound
  std::string bound_by;                               // the resource that is busy so long: "compute", "NIC (...)", ...
  std::int64_t bound_rank = 0;                        // pipeline rank of that resource
  std::vector<LostTime> lost;                         // on that rank; bound and lost times add up to the step's
  std::optional<double> flops_at_peak_s;              // FLOPs of the busiest rank at the device's peak
  std::optional<PredictionInterval> interval;         // where it was asked for
  std::optional<MeasuredStep> measured;               // where a measurement was given
  std::optional<ClusterSpread> cluster;               // of a step on every GPU
  std::optional<std::array<double, 2>> power_span_s;  // of the step under a lower power limit (sim/interval)
  std::optional<RunCost> run;
  Memory memory;
  std::vector<ProvenanceEntry> provenance;
  std::optional<RolloutResult> rollout;  // of a plan with [rollout], whose update is `step`
  std::optional<Error> rollout_error;    // why its engines cannot be
};

// What more of would make a step faster or the deployment serve more requests.
enum class ServingBound : std::uint8_t { weights, kv, compute, links, latency, host };
std::string_view to_string(ServingBound bound);

// A part of a step: seconds of one section of the layers ("attention", "dispatch") on the critical path.
struct ServingPart {
  std::string name;
  double seconds = 0;
  double hidden_s = 0;  // seconds that run while another part does
  ServingBound bound = ServingBound::latency;
};

// The GPUs of one phase; without disaggregation one pool has both.
struct ServingPool {
  std::string name;  // "prefill", "decode", or "both"
  std::int64_t gpus = 0, instances = 0, gpus_per_instance = 0;
  std::int64_t tensor = 1, pipeline = 1, expert = 1, attention_data = 1, redundant_experts = 0;
  double step_s = 0;               // of one pass of an instance over its requests
  double tokens_per_step = 0;      // of an instance
  double batch_per_gpu = 0;        // requests
  std::vector<ServingPart> parts;  // their seconds add up to step_s
  // Of the fullest GPU.
  double weights_bytes = 0, reserve_bytes = 0, activations_bytes = 0, kv_bytes = 0, capacity_bytes = 0;
  double kv_capacity_tokens = 0;  // of an instance
  ServingBound bound_by = ServingBound::latency;
};

// A deployment at a number of requests in flight: interactivity is 1 / tpot_s tokens per second and user.
struct ServingPoint {
  double concurrency = 0, batch_per_gpu = 0;
  double tpot_s = 0, ttft_unloaded_s = 0;
  double output_tokens_per_s_per_gpu = 0;
  std::optional<double> usd_per_million_output_tokens;
  bool within_limits = true;
  bool dominated = false;  // another point has no longer TPOT and no fewer tokens/s, and one of them better
  double ttft_s = 0;       // at that load
};

struct ServingInterval {
  std::optional<Quantiles> tpot_s, ttft_unloaded_s, output_tokens_per_s_per_gpu, usd_per_million_output_tokens, ttft_s;
  std::vector<IntervalPart> parts;           // shares of the variance of TPOT
  std::optional<double> limits_probability;  // that TPOT and TTFT keep inference.max_tpot_s and max_ttft_s
};

struct ServingResult {
  double concurrency = 0;      // requests in flight, those in prefill included
  double batch_per_gpu = 0;    // requests that decode, per GPU that decodes
  double tpot_s = 0;           // prefill of other requests in the same steps included
  double ttft_unloaded_s = 0;  // of a request that waits for nothing: a lower bound
  double ttft_s = 0;           // in the mean of the requests in flight: a queue, and the pass of the prompt
  double itl_worst_s = 0;      // the longest step: with a whole chunk of a prompt
  double output_tokens_per_s = 0, output_tokens_per_s_per_gpu = 0;  // over all GPUs of the deployment
  double input_tokens_per_s_per_gpu = 0;                            // hits of the prefix cache included
  double output_tokens_per_s_per_node = 0;
  double decode_step_s = 0;                 // one step of the decoding pool, without prefill
  double tokens_per_step = 1;               // of a request: more than 1 where tokens are speculated
  double prefill_tokens_per_s_per_gpu = 0;  // computed tokens, of GPUs that do nothing else
  double kv_bytes_per_token = 0;            // of all layers on all ranks of an instance, each stored once
  double kv_capacity_tokens = 0;            // of the deployment
  double state_bytes_per_request = 0;       // of recurrent layers likewise, whatever the context
  double most_concurrency = 0;              // requests whose keys and values fit
  ServingBound bound_by = ServingBound::latency;
  // USD per million output tokens has three readings. The first, which is meant where no other is named, is of the GPU
  // time that decodes; the second, with prompts, is of all GPUs; the third, of the demand, is of the whole GPUs that
  // inference.demand_output_tokens_per_day takes, busy or not. Each is over the output tokens alone.
  std::optional<double> usd_per_million_output_tokens, usd_per_million_tokens_all_in,
      usd_per_million_output_tokens_of_demand;
  std::optional<double> usd_per_million_input_tokens;  // of the GPU time that prefills
  std::int64_t prefill_gpus = 0, decode_gpus = 0;      // without disaggregation both are all GPUs
  std::vector<ServingPool> pools;
  std::vector<ServingPoint> frontier;  // by growing concurrency
  std::optional<double> demand_gpus;   // for inference.demand_output_tokens_per_day
  std::optional<double> demand_prefill_gpus, demand_decode_gpus;
  std::optional<ServingInterval> interval;
  std::vector<Parameter> constants;  // that the answer rests on
  std::vector<std::string> notes;    // sentences: what is a bound, what the engine leaves out
  std::vector<AssumedKey> assumed;   // those that the plan leaves open and that move the time per output token
  // That an instance starts and holds a request at the mean context, which is when the engine runs; further requests
  // wait. Nothing: not drawn.
  std::optional<double> fits_probability;
};

// Returns the memory of the fullest GPU of all pools, without ranks.
Memory memory_of(const ServingResult& result);

// Returns the step with the times, rates and shares of the whole step of the middle. Its parts (slots, bubble, classes,
// power) stay those of the components.
StepTimes middle_step(const StepTimes& step, const std::optional<PredictionInterval>& interval);
inline StepTimes middle_step(const StepResult& result) { return middle_step(result.step, result.interval); }

// Returns the run with the days, GPU-hours and costs of the middle; nothing where the result has none. The cost is the
// middle over the draws of step and price.
std::optional<RunCost> middle_run(const StepResult& result);

// Returns the step of reinforcement learning with the time, rates and costs of the middle. Its parts, shares of idle
// time and the rate of generation stay those of the components.
RolloutResult middle_rollout(RolloutResult rollout);

// The middle of a deployment's interval over what its components add up to; 1 without an interval.
struct ServingFactors {
  double tpot = 1, ttft_unloaded = 1, ttft = 1, rate = 1, usd = 1;
};
ServingFactors middle_factors(const ServingResult& result);
// Return a result and a point of a frontier with the times, rates and prices of the middle. Their pools, decode_step_s
// and rates of pools stay those of the components.
ServingResult middle_serving(ServingResult result, const ServingFactors& factors);
ServingPoint middle_point(ServingPoint point, const ServingFactors& factors);
inline ServingResult middle_serving(const ServingResult& result) {
  return middle_serving(result, middle_factors(result));
}

}  // namespace plumbline::model
