// The arguments of `plumbline measure`, and its three kinds of measurement.
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
  std::string csv;              // of --dry-run: the table of cases
  std::string budget;           // a duration in the form of real::parse_duration; empty: none
  std::string device = "h200";  // its datasheet rates determine floor times where there is no GPU
  std::string clock = "cpu";    // for the host
  std::string plan, only;       // for a GPU: a plan's operators; only this operation
  std::vector<std::string> overrides, library_folders;
  std::int64_t rounds = 15;
  std::uint64_t seed = 1;
  int samples = 30;
  bool dry_run = false, retry = false, strict = false, list_libraries = false;

  std::optional<double> budget_s() const;
};

// Each prints the table of cases or of results and returns the exit code: 77 when there is no GPU. The measurements of
// the host and of a plan write `out` whole. That of single cases appends, skips cases that `out` already has, and
// returns 1 with `strict` when a case failed.
model::Result<int> measure_cases(const MeasureArguments& arguments, const World& world);
model::Result<int> measure_on_host(const MeasureArguments& arguments, const World& world);
model::Result<int> measure_plan(const MeasureArguments& arguments);

// A table of cases, as text and as CSV.
struct ListedCases {
  std::string text, csv;
};
// Returns one line per case, with its FLOPs, bytes and cores.
ListedCases cases_table(const std::vector<real::Subject>& subjects);
// Prints the table, or writes its CSV and prints the table unless stdout takes the CSV; returns the exit code.
model::Result<int> list_cases(const MeasureArguments& arguments, const ListedCases& cases);

// Returns the content of a file of measurements: CSV when its name ends in .csv, else JSON Lines.
std::string measurements_content(const std::string& file, const calibrate::Measurements& measurements);

}  // namespace plumbline::cli
