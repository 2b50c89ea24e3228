// What is not known exactly about a prediction: each uncertainty is one standard normal number, which changes the
// inputs of a prediction wherever the uncertain fact is used.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/cost/constants.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// What one draw changes.
struct InputChange {
  // Index into the profile's parameters, factor on what the value is above the origin of its range.
  std::vector<std::pair<std::size_t, double>> constants;
  model::ShapeFactors shapes;
  std::optional<double> imbalance;  // of the plan's routing, instead of its own; in inference its skew
  // Of inference: the power to which the probabilities are raised with which drafts are accepted.
  std::optional<double> acceptance_power;
  std::optional<double> speed_deviation;  // of the plan's cluster
  double step_factor = 1;                 // on the step's time
  double allocator = 0;                   // standard normal: what the allocator holds unused, within its range
  double libraries = 1;                   // on the memory of contexts, workspaces and connections
};

struct Uncertainty {
  // Names the fact. Equal keys are one fact: in every plan and on every cluster they get the same draws.
  std::string key;
  std::string source;  // the part of the variance that it counts to, IntervalPart::source
  std::function<void(double z, InputChange&)> apply;
  // What would measure it, in words, and the standard deviation that is left after that, over the present one; 1: no
  // measurement of components narrows it.
  std::string measurement = {};
  double after = 1;
};

// What would measure what the software adds: the constants of a stack and what all of its steps have left in common.
inline constexpr std::string_view step_measurement = "a step of your stack on 8 GPUs";
// Returns what measures the costs of a family for the inputs' plan, in words, as Uncertainty::measurement.
std::string measurement_of(model::CostFamily family, const Inputs& inputs);
// Standard deviation of a cost that was measured at the very shapes of a plan.
inline constexpr double measured_deviation = 0.03;

// Adds the uncertainties of the constants: one for each, or one for each direction in which the constants of a fit vary
// together. Constants without a stated uncertainty have the usual one of their kind (docs/intervals.md).
void add_constants(const Inputs& inputs, std::vector<Uncertainty>& found);
// Returns the shapes of the plan's kernels and transfers, sorted. Errors: those of Predictor::closed_form().
model::Result<std::vector<model::ShapeKey>> shapes_of(const Inputs& inputs);
// Adds one for each shape, by the residual of its family; none where the profile states no residual.
void add_shapes(const Inputs& inputs, const std::vector<model::ShapeKey>& shapes, std::vector<Uncertainty>& found);
// Adds the load of experts, silicon and power, jitter and slow ranks.
void add_load(const Inputs& inputs, std::vector<Uncertainty>& found);
void add_silicon(const Inputs& inputs, std::vector<Uncertainty>& found);
void add_fleet(const Inputs& inputs, std::vector<Uncertainty>& found);
// Adds what is not known of memory, which changes no time.
void add_allocator(const Inputs& inputs, std::vector<Uncertainty>& found);

}  // namespace plumbline::sim
