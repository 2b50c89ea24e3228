// `plumbline measure --backend host`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/world.h"
#include "model/base/error.h"

namespace plumbline::cli {

struct HostMeasureArguments {
  std::string cases;  // "": the built-in sweep
  std::string out;    // .jsonl or .csv
  std::string clock = "cpu";
  std::optional<double> budget_s;
  std::int64_t rounds = 15;
  std::uint64_t seed = 1;
  bool dry_run = false;
};

// Prints the table of cases or of what was measured. Writes `out` now and then, so that a run that is killed leaves
// what it had.
model::Result<void> measure_on_host(const HostMeasureArguments& arguments, const World& world);

}  // namespace plumbline::cli
