// Which input moves step time and cost most: each is varied alone between its ends.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep_range.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/simulate.h"
#include "sim/whatif/sweep.h"

namespace plumbline::cli {

struct TornadoSetting {
  std::string text;                    // "480", "+20 %"
  std::vector<std::string> overrides;  // KEY=VALUE, of one input perhaps several
};

struct TornadoInput {
  std::string name;  // "NIC bandwidth"; of a key that the user gave, the key
  std::string key;
  std::vector<TornadoSetting> settings;  // at least one
};

// The quantities that inputs are sorted by, as calibrate/validate/metric.h names them.
inline constexpr std::array<std::string_view, 2> tornado_metrics = {"step.time_s", "run.cost_usd"};

// What an input does to one quantity. Settings that cannot be do not count.
struct TornadoSpan {
  double least = 0, most = 0;                              // with the plan as it is among them
  std::optional<std::size_t> least_setting, most_setting;  // nothing: the plan as it is
  double width() const { return most - least; }
};

struct TornadoRow {
  TornadoInput input;
  std::vector<model::Result<sim::SweepPoint>> points;                    // of each setting
  std::array<std::optional<TornadoSpan>, tornado_metrics.size()> spans;  // nothing: the quantity is not known
};

struct TornadoResult {
  std::string model;
  sim::Fidelity fidelity = sim::Fidelity::step;
  model::Plan plan;
  std::array<std::optional<double>, tornado_metrics.size()> base;
  std::string shortage;          // why the plan as it is does not fit, "" when it does
  std::vector<TornadoRow> rows;  // by falling width in step time, then in the order of the inputs
  // Rows by falling width in a quantity; those of width 0 are left out.
  std::vector<const TornadoRow*> by_width(std::size_t metric) const;
};

// The inputs that a prediction usually hangs on, as far as the plan has them: 20 % down and up, constants of the
// profile by their stated relative uncertainty where they have one. Constants that belong together move together.
std::vector<TornadoInput> usual_inputs(const sim::Inputs& inputs);

// A key as --over gives it; every value is a setting.
TornadoInput input_of(const SweepAxis& axis);

// `points` are the plan as it is, then every setting of every input in order.
TornadoResult tornado_result(sim::Fidelity fidelity, const std::vector<TornadoInput>& inputs,
                             std::vector<model::Result<sim::SweepPoint>> points);

std::string tornado_text(const TornadoResult& result, bool colour);
std::string tornado_json(const TornadoResult& result);
std::string tornado_svg(const TornadoResult& result);

}  // namespace plumbline::cli
