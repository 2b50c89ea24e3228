// A step of reinforcement learning, and a run of such. Times are seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/result/prediction_interval.h"

namespace plumbline::model {

// A part of a step. Parts of different pools follow each other, or run at once where the placement is asynchronous.
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

struct RolloutRun {
  double steps = 0, days = 0, gpu_hours = 0;
  std::optional<double> cost_usd;
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
  std::optional<RolloutRun> run;        // nothing: without rollout.steps
  std::optional<Quantiles> interval_s;  // of the step
};

}  // namespace plumbline::model
