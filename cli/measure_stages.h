// `plumbline measure --backend cuda --plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

struct StageMeasureArguments {
  std::string plan;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string out;                     // .jsonl or .csv
  std::vector<std::string> library_folders;
  std::optional<double> budget_s;
  std::int64_t rounds = 15;
  std::uint64_t seed = 1;
  bool dry_run = false;
};

// Prints the table of cases or of what was measured; the exit code, 77 where there is no GPU.
model::Result<int> measure_stages(const StageMeasureArguments& arguments);

}  // namespace plumbline::cli
