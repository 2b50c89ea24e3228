// Published figures of deployments that shipped examples describe (calibrate/published/serving/examples.csv), which are
// printed next to their predictions. No constant rests on them.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

struct ExampleFigure {
  std::string plan;      // name of a shipped example
  std::string quantity;  // a key of `serve --json`: "tpot_s"
  std::string name;      // as tables print it
  double value = 0;
  std::string unit;
  double scale = 1;    // quantity * scale is in `unit`
  std::string reason;  // why the published value differs from a steady state; may be empty
  std::string source;
};

// Input errors name file, line and column.
model::Result<std::vector<ExampleFigure>> load_example_figures(const std::string& path);

}  // namespace plumbline::calibrate
