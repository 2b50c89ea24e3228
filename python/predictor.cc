// Estimates of one plan with changes, as a search makes them: what plans share is computed once.
#include "sim/predict/predictor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cli/inputs.h"
#include "model/plan/alternative.h"
#include "python/plan_input.h"
#include "reports/json/json.h"
#include "sim/predict/memos.h"
#include "sim/predict/stage_balance.h"

namespace plumbline::python {
namespace {

namespace py = pybind11;
using model::Result;

constexpr std::size_t most_bases = 64;  // some MB each, with their caches

// Returns the effective plan of the inputs with changes; the layers of balanced stages are found anew.
Result<model::Plan> changed_plan(const sim::Inputs& inputs, const std::vector<std::string>& changes) {
  model::Plan plan = inputs.plan;
  if (plan.schedule.layers_per_stage.found) plan.schedule.layers_per_stage = {};
  TRY(model::change_plan(changes, plan));
  return sim::with_balanced_stages(std::move(plan), inputs);
}

// Safe to use from several threads. Files that the plan names are read once.
class VariantPredictor {
 public:
  explicit VariantPredictor(PlanInput plan) : plan_(std::move(plan)) {}

  // Returns the closed form of the plan with the changes: the figures of a step of that fidelity. Errors: those of
  // InputsReader::load() and sim::Predictor::closed_form().
  Result<sim::PlanEstimate> estimate(const std::vector<std::string>& changes);

 private:
  // What plans share that have one model, cluster and profile.
  struct Base {
    sim::Inputs inputs;
    std::mutex mutex;
    std::vector<std::unique_ptr<sim::Predictor>> idle;
  };
  Result<std::shared_ptr<Base>> base_of(const std::vector<std::string>& changes);

  PlanInput plan_;
  cli::InputsReader reader_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Base>> bases_;  // by the changes that decide about the base
};

Result<std::shared_ptr<VariantPredictor::Base>> VariantPredictor::base_of(const std::vector<std::string>& changes) {
  const std::string key = fmt::format("{}", fmt::join(changes, "\n"));
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = bases_.find(key); found != bases_.end()) return found->second;
  }
  auto base = std::make_shared<Base>();
  base->inputs = TRY(load_inputs(reader_, plan_, changes));
  base->inputs.routing = std::make_shared<sim::ExpertGroupMemo>();
  base->inputs.tables = std::make_shared<sim::ScheduleTables>();
  const std::scoped_lock lock(mutex_);
  if (bases_.size() == most_bases) bases_.clear();
  return bases_.try_emplace(key, std::move(base)).first->second;
}

Result<sim::PlanEstimate> VariantPredictor::estimate(const std::vector<std::string>& changes) {
  std::vector<std::string> of_base, of_plan;
  for (const std::string& change : changes) (cli::is_of_plan_alone(change) ? of_plan : of_base).push_back(change);
  auto base = TRY(base_of(of_base));
  auto plan = changed_plan(base->inputs, of_plan);
  // Words that only a plan's reader has, such as those of other frameworks, and the errors of wrong ones.
  if (!plan) {
    base = TRY(base_of(changes));
    plan = base->inputs.plan;
  }
  std::unique_ptr<sim::Predictor> predictor;
  {
    const std::scoped_lock lock(base->mutex);
    if (!base->idle.empty()) {
      predictor = std::move(base->idle.back());
      base->idle.pop_back();
    }
  }
  if (!predictor) predictor = std::make_unique<sim::Predictor>(base->inputs);
  auto estimate = predictor->closed_form(*plan);
  const std::scoped_lock lock(base->mutex);
  base->idle.push_back(std::move(predictor));
  return estimate;
}

using Estimate = sim::PlanEstimate;

Estimate estimate(VariantPredictor& predictor, const py::object& changes) {
  const std::vector<std::string> overrides = overrides_of(changes);
  const py::gil_scoped_release released;
  return value_or_raise(predictor.estimate(overrides));
}

}  // namespace

void bind_predictor(py::module_& module) {
  py::class_<Estimate>(module, "Estimate", "A step in closed form: its times and the peak of its memory.")
      .def_property_readonly("time_s", [](const Estimate& one) { return one.step.time_s; })
      .def_property_readonly("tokens_per_s", [](const Estimate& one) { return one.step.tokens_per_s; })
      .def_property_readonly("tokens_per_s_per_gpu", [](const Estimate& one) { return one.step.tokens_per_s_per_gpu; })
      .def_property_readonly("model_tflops_per_gpu", [](const Estimate& one) { return one.step.model_tflops_per_gpu; })
      .def_property_readonly("mfu", [](const Estimate& one) { return one.step.mfu; })
      .def_property_readonly("bubble_s", [](const Estimate& one) { return one.step.bubble_s; })
      .def_property_readonly("peak_bytes", [](const Estimate& estimate) { return estimate.peak.bytes; })
      .def_readonly("fits", &Estimate::fits)
      .def("step_json", [](const Estimate& one) { return reports::step_json(one.step); });
  py::class_<VariantPredictor>(module, "Predictor")
      .def(py::init([](const py::object& plan, const py::object& set) {
        return std::make_unique<VariantPredictor>(plan_input(plan, set));
      }))
      .def("estimate", &estimate);
}

}  // namespace plumbline::python
