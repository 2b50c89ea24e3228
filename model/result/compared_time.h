// A predicted and the measured time of the same thing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plumbline::model {

// Returns predicted over measured, minus one; nothing where a time is missing or the measured one is not positive.
inline std::optional<double> relative_error(std::optional<double> predicted, std::optional<double> measured) {
  if (!predicted || !measured || *measured <= 0) return std::nullopt;
  return *predicted / *measured - 1;
}

struct ComparedTime {
  std::string name;                               // "F", "attn(F)", "GEMM", "q_b"
  std::optional<double> predicted_s, measured_s;  // missing on the side that does not have it
  std::string kind = {};                          // kind of GEMM: fprop, dgrad, wgrad, recompute
  std::int32_t slot = -1;                         // pair of layers of a phase or period
  bool same_work = true;                          // else the times are not comparable

  std::optional<double> error() const { return same_work ? relative_error(predicted_s, measured_s) : std::nullopt; }
};

}  // namespace plumbline::model
