// Predicts what serving a model costs in its steady state, or in waves of requests that start together. It is a
// planner: queues are those of the mean load, without bursts. Formulas: docs/serving.md.
#pragma once

#include <memory>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// What limits are held against: these factors times the times that components add up to.
struct ServingMargin {
  double ttft = 1, tpot = 1;
};

// What a deployment does in the mean, as ServingResult has it.
struct ServingRates {
  double tpot_s = 0, ttft_unloaded_s = 0, ttft_s = 0, output_tokens_per_s_per_gpu = 0;
};

// Predicts deployments of one model on one cluster under one profile; plans may differ in [parallelism] and
// [inference]. Graphs, costs and times of passes are kept by what they depend on, so that related plans share them.
// Safe for several threads.
class ServingPredictor {
 public:
  explicit ServingPredictor(const Inputs& inputs);
  // Returns one that holds limits with a margin and shares what this one keeps.
  ServingPredictor with(const ServingMargin& margin) const;
  const ServingMargin& margin() const { return margin_; }

  // Errors: infeasible ones name the key and the nearest value that works (degrees that do not divide heads or experts,
  // weights that do not fit, no space for one request); a profile that lacks a constant is an input error.
  model::Result<model::ServingResult> predict(const model::Plan& plan) const;

  // Returns these of the same prediction, without the passes that only its other numbers need.
  model::Result<ServingRates> rates(const model::Plan& plan) const;

  // Returns points from one request to as many as fit, without interval.
  model::Result<std::vector<model::ServingPoint>> frontier(const model::Plan& plan) const;

 private:
  struct Memos;
  std::shared_ptr<Memos> memos_;
  ServingMargin margin_;
};

// Predicts the inputs' plan, with its frontier.
model::Result<model::ServingResult> predict_serving(const Inputs& inputs);

}  // namespace plumbline::sim
