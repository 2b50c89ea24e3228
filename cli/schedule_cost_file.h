// Files of costs per stage: cli/schedule_costs.h shows their form. `file` is the name that errors bear.
#pragma once

#include <string>

#include "cli/schedule_costs.h"

namespace plumbline::cli {

model::Result<CostInput> costs_from_toml(const std::string& text, const std::string& file);
model::Result<CostInput> costs_from_csv(const std::string& text, const std::string& file);

}  // namespace plumbline::cli
