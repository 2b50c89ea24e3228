// A validation case over a whole table of published training steps: on which shipped cluster a row is predicted, what
// plan keys the software of a set implies, and how large the errors may be. docs/validation.md describes the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

// What a cell of the column `hardware` stands for.
struct StepHardware {
  std::string name, topology, profile;
  std::string device;  // empty: the topology's own
};

// What is not in the table but known of the software that ran a set. Several may match; later ones win.
struct StepReading {
  std::string set;                   // of the rows
  std::string variant, hardware;     // only of rows whose variant contains this, or on this hardware; empty: all
  std::string profile;               // instead of the hardware's; empty: that one
  std::vector<std::string> plan;     // "overlap.gradient_reduce=false", as on the command line
  std::vector<std::string> missing;  // what the plan cannot say about these rows
  std::string source;
};

// Limits on the errors of some rows, relative.
struct StepDemand {
  std::string name;
  std::vector<std::string> hardware;  // of the rows; empty: all
  double mean_absolute_error = 0;
  double bias = 0;  // of the mean error, either way
  std::optional<double> aim_mean_absolute_error, aim_bias;
};

struct StepCase {
  std::string name;
  std::string table;  // name of the measurement
  double naive_mfu = 0;
  std::string naive_source;
  std::vector<StepHardware> hardware;
  std::vector<StepReading> readings;
  std::vector<StepDemand> demands;
};

// Whether a case file is one of these, not one about figures. Unreadable files are not.
bool is_step_case(const std::string& path);

// Input errors name file, line and key.
model::Result<StepCase> load_step_case(const std::string& path);

}  // namespace plumbline::calibrate
