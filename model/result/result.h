// The result of a step: one type for every fidelity and for measured steps. Times are in seconds. A value that was not
// computed is nullopt and prints as null, never as zero.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/economics/ownership.h"
#include "model/economics/prices.h"
#include "model/result/measured_step.h"
#include "model/result/prediction_interval.h"

namespace plumbline::model {

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

}  // namespace plumbline::model
