// How a step of all GPUs of a cluster spreads over ranks and draws, and what its bubble consists of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/result/prediction_interval.h"

namespace plumbline::model {

// Seconds by which the bubble (StepTimes::bubble_s) and the step would be shorter without a cause. The causes are
// removed one after the other, in this order: "slow ranks", "imbalance", "jitter", "point-to-point", "uneven stages"
// (every slot takes the mean of its type); "schedule" is the rest, and "input and host" what a step waits for besides.
// The parts add up to the bubble. A cause that makes slots longer shortens the bubble and lengthens the step.
struct BubblePart {
  std::string cause;
  double seconds = 0;  // of the bubble
  double step_s = 0;
};

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

}  // namespace plumbline::model
