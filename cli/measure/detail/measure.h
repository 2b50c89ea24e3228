// The arguments of `plumbline measure`, and its three kinds of measurement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "cli/world.h"
#include "model/base/error.h"
#include "real/cuda/measure/stage_measure.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/measure.h"
#include "real/measure/kernel_case/case_machine.h"
#include "real/measure/rounds.h"
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

// Measured samples as records in the common form (calibrate/measurement/measurement.h).

// Return one record as JSON Lines: the environment of a run, a subject of a case with its samples (at least one), a
// case that failed. `date`: ISO 8601.
std::string environment_line(const real::CaseMachine& machine, const std::string& date);
std::string measurement_line(const real::CaseMachine& machine, const real::KernelCase& what, const real::Series& series,
                             const real::Findings& findings, const std::string& date);
std::string failure_line(const real::CaseMachine& machine, const real::KernelCase& what, const std::string& reason,
                         const std::string& date);

// Return the records of the host's cases, and of a plan's operators on a GPU: the environment, then one record per
// series with samples.
calibrate::Measurements host_records(const std::vector<real::Series>& series,
                                     const real::host::Environment& environment, real::host::ClockKind clock,
                                     const std::string& date);
calibrate::Measurements plan_records(const real::cuda::StageMeasurement& measured, const std::string& date);

}  // namespace plumbline::cli
