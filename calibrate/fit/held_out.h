// The shapes of a component table that its fit leaves out, and the errors on them. The split is by shape alone: all
// softwares and versions of a table leave out the same shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/cost/forms/kernel_forms.h"
#include "model/profile/cluster.h"

namespace plumbline::calibrate {

struct FitMachine {  // what the fits and rooflines take from datasheets
  model::Device device;
  double nvlink_rate = 0;                                  // B/s per GPU and direction
  double nic_rate = 0;                                     // B/s per GPU and direction
  double small_m_tile = model::SmallGemmConstants{}.tile;  // rows of the least tile of GEMMs of few rows
};

// Errors on the rows of a table that were left out of its fit, row by row.
struct HeldOut {
  std::string family;  // "gemm", "attention", "experts"
  std::string table;   // the software and format of the rows: "sglang bf16"
  std::size_t fitted_rows = 0;
  std::vector<double> errors;    // |predicted / measured - 1| with the fitted constants
  std::vector<double> roofline;  // the same of a datasheet roofline
  // ln(measured / predicted) of those that are as large as training has them: GEMMs, attention and experts of 1,024
  // tokens, collectives of 4 MiB
  std::vector<double> large;
};

struct HeldOutSummary {  // of all tables of a family, or of one
  std::string family, table;
  std::size_t fitted_rows = 0, rows = 0;
  double median = 0, p90 = 0, roofline_median = 0, roofline_p90 = 0;  // of |predicted / measured - 1|
};

// Returns a summary of each table that has rows, and of each family over its tables: these have no table's name and
// come first. A family's rows count alike, whichever table they are of.
std::vector<HeldOutSummary> summaries(const std::vector<HeldOut>& tables);

inline constexpr std::int64_t training_tokens = 1024, training_bytes = std::int64_t{4} << 20;

// Returns the standard deviation of the normal distribution around 0 of which eight of ten values are as near to 0 as
// eight of ten of these: the deviation with which an 80 % interval of a new value holds, whatever the tails are.
// Requires values.
double deviation_of(const std::vector<double>& values);

// Returns whether the shape with this key ("2-8192-64-8-128") is left out: CRC-32 of the key is a multiple of three.
bool is_held_out(const std::string& key);

}  // namespace plumbline::calibrate
