// The one road from a plan to the time and memory of its step, over parts that plans have in common and that are
// computed once. Whoever looks at many plans shares a predictor between them; simulate() makes one for a single plan.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/network/step_links.h"
#include "sim/predict/inputs.h"
#include "sim/predict/simulation.h"

namespace plumbline::sim {

class Loop;

struct PlanEstimate {
  model::StepTimes step;
  double peak_bytes = 0;  // of the fullest rank
  bool fits = false;
};

struct PlanLimits {
  double bound_s = 0;          // proven lower bound of the step
  double flops_at_peak_s = 0;  // as in model::StepResult
};

// For one thread at a time; several threads take a predictor each, and may share the inputs' memos.
// Plans may differ in everything but model.* and what cluster.* says about the hardware, which are read from what the
// predictor was made with. What it remembers is forgotten when there are more than some hundred distinct graphs.
// Every function returns the errors of make_layout(), of a schedule that deadlocks and of cost_models(). A plan that
// does not fit in memory is no error.
class Predictor {
 public:
  explicit Predictor(Inputs inputs);  // of all but the plan
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  // The durations of chunks on a free GPU put through the schedule's recurrence, without a step program.
  model::Result<PlanEstimate> closed_form(const model::Plan& plan);

  // Every slot of every pipeline rank, on a loop whose time stands at 0, or on one where nothing is shared. Errors
  // besides: those of execute().
  model::Result<PlanEstimate> events(const model::Plan& plan, Loop* loop = nullptr);

  model::Result<model::Memory> memory(const model::Plan& plan);
  model::Result<double> peak_bytes(const model::Plan& plan);  // of the fullest rank; nothing is timed
  model::Result<PlanLimits> bounds(const model::Plan& plan, Fidelity fidelity);
  // What transfers of the step cross; nullptr where the inputs know no wiring.
  model::Result<std::shared_ptr<const StepLinks>> links(const model::Plan& plan);

  struct SimulationOptions {
    Fidelity fidelity = Fidelity::step;
    bool record_timeline = false;
    Loop* loop = nullptr;  // as in events()
  };
  // All that is to say about the step: its times, bound, losses, memory, cost and provenance.
  model::Result<Simulation> simulate(const model::Plan& plan, const SimulationOptions& options);

  // closed_form() for searches, which need not know everything of every plan: nullopt where the plan turns out not to
  // be worth it: when `promising` says so, or when the collectives of one rank take longer than `limit` seconds, since
  // they follow each other on one stream. `seconds` are lower bounds by slot class of the schedule's table; slots are
  // timed one by one, those first that have most to say, and promising() is asked after each, with the bounds replaced
  // by what the slots take on a free GPU.
  using Promising = std::function<bool(const std::vector<double>& seconds)>;
  model::Result<std::optional<PlanEstimate>> closed_form_while(const model::Plan& plan, double limit,
                                                               std::vector<double> seconds, const Promising& promising);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace plumbline::sim
