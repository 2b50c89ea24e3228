// Reads the costs of a schedule's ops as a user writes them: one line for all stages, or a file with a row for each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct CostTable {
  ScheduleCosts uniform;                    // costs of every stage, unless `stages` lists them; p2p always applies
  std::vector<ScheduleCosts> stages;        // from a file: in pipeline order; their p2p is unused
  std::vector<double> micro_batch_factors;  // from a file: a factor on the ops of each micro-batch; may be empty
  std::string file;                         // where `stages` come from
};

// Returns whether a value can be a cost: sums over a step stay finite.
inline bool is_cost(double value) { return value >= 0 && value <= 1e100; }
inline constexpr const char* not_a_cost = "not a number from 0 to 1e100";

// Reads "F=1,I=1,W=1,FB=3,p2p=0" in any order, each key optional: F, I and W default to 1, p2p to 0, B to I + W and FB
// to F + B. An unknown key or a value that is no cost is an input error.
Result<ScheduleCosts> parse_costs(std::string_view text);

// Reads the inline form, or a file whose name ends in .toml or .csv:
//   p2p = 0.1                          # default 0
//   micro_batch_factors = [1, 1.2]     # default 1 each; with two directions those of direction 0 first
//   [[stage]]                          # one per stage; B defaults to I + W, FB to F + B
//   F = 1.0
//   I = 1.0
//   W = 1.0
// A CSV file has a header with F, I, W and optionally B and FB, and one line per stage. Errors are input errors with
// file, line, key and the nearest known name.
Result<CostTable> read_costs(const std::string& text_or_file);

// Read the contents of such files; errors name `file`.
Result<CostTable> costs_from_toml(const std::string& text, const std::string& file);
Result<CostTable> costs_from_csv(const std::string& text, const std::string& file);

}  // namespace plumbline::model
