// A TOML file of the cases to measure on the host. Each table is a grid: all combinations of the values that it lists.
// docs/measuring.md describes the keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/data_type.h"
#include "model/base/error.h"
#include "real/measure/workload.h"

namespace plumbline::real::host {

using Numbers = std::vector<std::int64_t>;

struct PlanCases {  // every operator of a plan's step
  std::string plan;
  std::vector<std::string> set;  // changes to the plan, KEY=VALUE
  Numbers cores = {1};
  int line = 0;
};

// The grid of one other table:
//   product       y[m,n] = x[m,k] W[n,k]^T and its two gradients
//   attention     one causal sequence, and its gradient
//   memory        operators that move data, and their gradients
//   message       from one rank to another
//   collective    bytes are of the whole tensor: what every rank ends with, or reduces
//   interference  a GEMM overlapped with threads that copy through memory
struct Grid {
  std::string table;
  std::vector<std::string> operators;  // of memory and collective
  std::vector<Numbers> axes;           // the values of the table's keys, in the order of docs/measuring.md
  model::Precision format = model::Precision::fp32;
};

struct CaseFile {
  std::vector<PlanCases> plans;
  std::vector<Grid> grids;  // by table, in the order above
  bool launch = true;       // measures the device's own time between two kernels
};

// Input errors name `path`, line, key and the nearest known name.
model::Result<CaseFile> parse_cases(std::string_view text, const std::string& path);

// Returns the cases that are measured without a file, on 1, 2, 4, ... up to `cores` cores: GEMMs of several shapes,
// attention, memory operators from cache to memory sizes, messages of 64 B to 16 MB, collectives and interference.
CaseFile built_in_cases(int cores);

// Returns the cases of a file as workloads, without its plans.
std::vector<Workload> workloads_of(const CaseFile& file);

}  // namespace plumbline::real::host
