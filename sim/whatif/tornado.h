// The inputs that change time and cost most, of a step or a deployment: each is varied alone between its ends.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/simulate.h"
#include "sim/whatif/range.h"
#include "sim/whatif/sweep.h"

namespace plumbline::sim {

struct TornadoSetting {
  std::string text;                  // "480", "+20 %"
  std::vector<std::string> changes;  // KEY=VALUE; an input may have several
};

struct TornadoInput {
  std::string name;  // "NIC bandwidth"; for a key given by the user, the key
  std::string key;
  std::vector<TornadoSetting> settings;  // at least one
};

// The quantities by which inputs are sorted, as JSON keys of a result: of a step, and of a deployment.
using TornadoMetrics = std::array<std::string_view, 2>;
inline constexpr TornadoMetrics step_metrics = {"step.time_s", "run.cost_usd"};
inline constexpr TornadoMetrics deployment_metrics = {"serving.tpot_s", "serving.usd_per_million_tokens_all_in"};

// The range of one quantity over an input's settings. Infeasible settings do not count.
struct TornadoSpan {
  double least = 0, most = 0;                              // includes the plan as it is
  std::optional<std::size_t> least_setting, most_setting;  // nothing: the plan as it is
  double width() const { return most - least; }
};

struct TornadoRow {
  TornadoInput input;
  std::vector<PointResult> points;                                    // of each setting
  std::array<std::optional<TornadoSpan>, step_metrics.size()> spans;  // nothing: the quantity is not known
};

struct TornadoResult {
  Fidelity fidelity = Fidelity::step;
  model::Plan plan;
  TornadoMetrics metrics = step_metrics;
  std::array<std::optional<double>, step_metrics.size()> base;
  std::string infeasible_reason;  // why the plan as it is does not fit; "" when it does
  std::vector<TornadoRow> rows;   // by falling width in the first quantity, then in the order of the inputs
  // Returns rows by falling width in a quantity, without those of width 0.
  std::vector<const TornadoRow*> by_width(std::size_t metric) const;
};

// Returns the inputs that usually matter, as far as the plan has them. They vary by 20 % down and up, and constants of
// the profile by their stated relative uncertainty where they have one. Constants that belong together change together.
std::vector<TornadoInput> usual_inputs(const Inputs& inputs);

// Reads inputs as KEY=RANGE; every value is a setting. Errors: those of parse_ends(), and a key that is given twice.
model::Result<std::vector<TornadoInput>> parse_inputs(const std::vector<std::string>& over);

// Returns one of the quantities of a point, in the order of the metrics; nothing where it is not known.
std::optional<double> tornado_value(const PointResult& point, std::size_t metric);

// Makes the result. `points` are the plan as it is, then every setting of every input in order.
TornadoResult tornado_result(Fidelity fidelity, const std::vector<TornadoInput>& inputs,
                             std::vector<PointResult> points);

// Simulates every setting of the inputs, or of usual_inputs() where none is given. Errors: those of sweep(), and an
// infeasible plan.
model::Result<TornadoResult> tornado(std::vector<TornadoInput> inputs, const ChangedInputs& changed,
                                     const SweepOptions& options);

}  // namespace plumbline::sim
