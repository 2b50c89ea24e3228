// Step time and memory of many plans of one model on one cluster under one profile: the numbers of simulate(), made of
// parts that plans have in common and that are computed once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "model/result/result.h"
#include "sim/predict/routing_memo.h"
#include "topologies/fabric_shape.h"

namespace plumbline::sim {

struct Inputs;

struct PlanEstimate {   // seconds and bytes as in model::StepTimes and model::Memory
  double step_s = 0;    // StepTimes::time_s
  double bubble_s = 0;  // of rank 0
  double exposed_gradient_reduce_s = 0;
  double exposed_parameter_gather_s = 0;  // of rank 0
  double optimizer_s = 0;
  double peak_bytes = 0;  // of the fullest rank
  bool fits = false;
};

// For one thread at a time; several threads take an evaluator each, and may share the memos.
// Plans may differ in everything but model.* and what cluster.* says about the hardware, which are read from what the
// evaluator was made with. What it remembers is forgotten when there are more than some hundred distinct graphs.
class PlanEvaluator {
 public:
  PlanEvaluator(model::Architecture architecture, model::ClusterShape cluster, model::Profile profile,
                std::optional<topologies::FabricShape> fabric = std::nullopt,
                std::shared_ptr<RoutingMemo> routing = nullptr);
  // Of all but the inputs' plan, with the memos that they have.
  explicit PlanEvaluator(Inputs inputs);
  ~PlanEvaluator();
  PlanEvaluator(PlanEvaluator&&) noexcept;
  PlanEvaluator& operator=(PlanEvaluator&&) noexcept;

  // In closed form: the numbers of simulate(.., Fidelity::closed_form). Errors: those of simulate().
  model::Result<PlanEstimate> evaluate(const model::Plan& plan);
  // The same of a step by events: the numbers of simulate(.., Fidelity::step) on the heap loop.
  model::Result<PlanEstimate> evaluate_by_events(const model::Plan& plan);

  // For searches, which need not know everything of every plan:
  // PlanEstimate::peak_bytes alone, for which nothing is timed.
  model::Result<double> peak(const model::Plan& plan);
  // nullopt where the plan turns out not to be worth it: when `promising` says so, or when the collectives of one rank
  // take longer than `limit` seconds, since they follow each other on one stream. `seconds` are lower bounds by slot
  // class of the schedule's table; slots are timed one by one, those first that have most to say, and promising() is
  // asked after each, with the bounds replaced by what the slots take on a free lane.
  using Promising = std::function<bool(const std::vector<double>& seconds)>;
  model::Result<std::optional<PlanEstimate>> evaluate_while(const model::Plan& plan, double limit,
                                                            std::vector<double> seconds, const Promising& promising);

  struct Remembered {  // distinct parts
    std::size_t schedules = 0, costs = 0, graphs = 0, shardings = 0;
  };
  Remembered remembered() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace plumbline::sim
