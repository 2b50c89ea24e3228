// Predictions that were written down before a measurement existed, and what was measured later: one file each, whose
// form docs/intervals.md has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"

namespace plumbline::sim {
struct Inputs;
}  // namespace plumbline::sim

namespace plumbline::calibrate {

struct LedgerMeasurement {
  double time_s = 0;                 // of a step
  std::optional<double> peak_bytes;  // of the fullest rank
  std::string date;                  // as LedgerEntry::date, and not before it
  std::string source;                // who measured, where and how
};

struct LedgerOrigin {             // where and when a prediction was made
  std::string date;               // UTC: "2026-11-23T10:30:00Z"
  std::string version, revision;  // of plumbline; "unknown" where it was built without git
  std::uint64_t seed = 1;
};

struct LedgerEntry : LedgerOrigin {
  std::string path;                              // of the file that it was read from
  std::string plan, plan_toml;                   // its name; its effective keys, those that are not set left out
  std::string profile, stack, device, fidelity;  // no stack: empty
  std::string constants_hash;                    // of all constants of the profile with the stack
  std::size_t draws = 0;
  double time_s = 0;  // of the step, by the components alone
  model::Quantiles time, peak_bytes;
  std::optional<LedgerMeasurement> measured;
};

// Returns the entry of a prediction, which has an interval.
LedgerEntry ledger_entry(const sim::Inputs& inputs, const model::StepResult& result, const LedgerOrigin& origin);

// Returns the keys of a plan that are set, as an entry has them.
std::string ledger_plan(const model::Plan& plan);

// Returns "2026-11-23-PLAN-PROFILE.toml".
std::string ledger_file_name(const LedgerEntry& entry);

std::string ledger_toml(const LedgerEntry& entry);
// Returns the table that is appended to the file of an entry once it is measured.
std::string ledger_toml(const LedgerMeasurement& measured);

// Reads an entry. Input errors name file, line and key: a date in another form, a measurement that is older than
// its prediction, quantiles out of order, a prediction that is not the one of its hash (older entries have none).
model::Result<LedgerEntry> read_ledger_entry(const std::string& path);

// Reads the entries of a folder, or the one of a file, ordered by name. A folder without entries is an input error.
model::Result<std::vector<LedgerEntry>> read_ledger(const std::string& folder_or_file);

}  // namespace plumbline::calibrate
