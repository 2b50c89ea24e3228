// A validation case over a whole table of published training steps: on which shipped cluster a row is predicted, what
// plan keys the software of a set implies, and how large the errors may be. docs/validation.md describes the file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "sim/predict/simulation.h"

namespace plumbline::calibrate {

// The cluster and profile that a cell of the column `hardware` stands for.
struct StepHardware {
  std::string name, topology;
  std::string profile;            // empty: the topology's own
  std::string device;             // empty: the topology's own
  std::vector<std::string> plan;  // "cluster.nics_per_node=4", as on the command line
};

// What is known of the software of a set but not in the table. Several may match; later ones win.
struct StepReading {
  std::string set;                   // its rows only
  std::string variant, hardware;     // only rows whose variant contains this, or on this hardware; empty: all
  std::string cluster, profile;      // override the hardware's topology and profile; empty: no override
  std::string stack;                 // the software; empty: the profile's
  std::vector<std::string> plan;     // "overlap.gradient_reduce=false", as on the command line
  std::vector<std::string> missing;  // features of these rows that a plan cannot express
  // Whether those features decide which tensors the rows hold, so that their memory shows nothing of other plans.
  bool missing_tensors = false;
  // What their memory is of: "device" (as nvidia-smi shows it), "reserved" (the allocator's segments) or "allocated"
  // (tensors); empty: no override of "device".
  std::string memory;
  std::string source;
};

// Limits on the relative errors of some rows.
struct StepDemand {
  std::string name;
  std::vector<std::string> hardware;  // of the rows; empty: all
  double mean_absolute_error = 0;
  double bias = 0;  // limit on the absolute value of the mean error
  std::optional<double> aim_mean_absolute_error, aim_bias;
  std::vector<std::string> sets;  // of the rows; empty: all
};

// Limits on intervals that nobody's own rows are in, and what they should reach; docs/intervals.md.
struct IntervalDemand {
  std::pair<double, double> coverage;  // of the 80 % interval, over all rows
  std::optional<std::pair<double, double>> aim_coverage;
  std::optional<double> aim_set_coverage;                   // of each set of `rows_of_a_set` rows or more, at least
  std::optional<double> aim_half_width;                     // median
  std::optional<double> aim_mean_absolute_error, aim_bias;  // of P50
  static constexpr std::size_t rows_of_a_set = 20;
  bool holds(double measured_coverage) const {
    return coverage.first <= measured_coverage && measured_coverage <= coverage.second;
  }
};

struct StepCase {  // the content of a case file
  std::string name;
  std::vector<std::string> tables;  // names of the measurements
  sim::Fidelity fidelity = sim::Fidelity::step;
  bool residuals = false;  // whether to explain the errors by the shares of the steps
  bool intervals = true;   // whether the steps are held against their intervals, which rest on them
  double naive_mfu = 0;
  std::string naive_source;
  std::vector<StepHardware> hardware;
  std::vector<StepReading> readings;
  std::vector<StepDemand> demands;
  std::optional<IntervalDemand> interval;
};

// Whether a case file is of this form, with a table of steps instead of figures; false for unreadable files.
bool is_step_case(const std::string& path);

// Reads a case. Input errors name file, line and key.
model::Result<StepCase> load_step_case(const std::string& path);

}  // namespace plumbline::calibrate
