// The formats of `plumbline export`, one file each.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

struct ExportArguments {
  std::string plan;
  std::vector<std::string> overrides;  // of the plan
  std::string out = "-";
};

// The cluster of the plan as a platform file of SimGrid.
model::Result<void> export_simgrid_platform(const ExportArguments& arguments);

// The plan as a launch script of Megatron-LM; says on stderr what no argument of it can say.
model::Result<void> export_megatron(const ExportArguments& arguments);

}  // namespace plumbline::cli
