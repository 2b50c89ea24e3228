// What `plumbline measure` was asked for, and the three things that it takes times of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "cli/world.h"
#include "model/base/error.h"
#include "real/measure/workload.h"

namespace plumbline::cli {

struct MeasureArguments {
  std::string backend = "cuda";
  std::string cases;            // a file or the name of a shipped one; empty: the built-in sweep
  std::string out;              // .jsonl or .csv
  std::string budget;           // a time, as real::parse_duration reads it; empty: none
  std::string device = "h200";  // whose datasheet rates floor times use where there is no GPU
  std::string clock = "cpu";    // of the host
  std::string plan, only;       // of a GPU: a plan's operators; only this operation
  std::vector<std::string> overrides, library_folders;
  std::int64_t rounds = 15;
  std::uint64_t seed = 1;
  int samples = 30;
  bool dry_run = false, retry = false, strict = false, list_libraries = false;

  std::optional<double> budget_s() const;
};

// Each prints the table of cases or of what was measured and returns the exit code: 77 where there is no GPU.
// The host's and a plan's measurement writes `out` whole; that of single cases appends, does not measure again what is
// there already, and returns 1 with `strict` where a case failed.
model::Result<int> measure_cases(const MeasureArguments& arguments, const World& world);
model::Result<int> measure_on_host(const MeasureArguments& arguments, const World& world);
model::Result<int> measure_plan(const MeasureArguments& arguments);

// One line a case, with its FLOPs, bytes and cores.
std::string cases_table(const std::vector<real::Subject>& subjects);

// The content of a file of measurements: CSV where its name ends so, else JSON Lines.
std::string measurements_content(const std::string& file, const calibrate::Measurements& measurements);

// The present time, ISO 8601.
std::string now_in_utc();

}  // namespace plumbline::cli
