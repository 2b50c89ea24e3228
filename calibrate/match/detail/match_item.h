// What the alignment of a trace with a predicted step sees of a kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::calibrate {

enum class MatchRow : std::uint8_t {
  gemm,
  weight_gradient,
  attention,
  norm,
  cast,
  transpose,
  swiglu,
  permute,
  copy,
  rotary,
  elementwise,
  router,
  optimizer,
  embedding,
  loss,
  other
};
inline constexpr std::size_t match_rows = static_cast<std::size_t>(MatchRow::other) + 1;

struct MatchItem {
  std::int32_t span = 0;  // index into Timeline::spans
  MatchRow row = MatchRow::other;
  bool communicates = false;
  std::string transfer;             // kind of communication: "dispatch", "all_gather"
  std::int32_t named = -1;          // number of the operator that its name states; -1: it states none
  std::string phase;                // as Kernel::phase
  std::optional<bool> backward;     // of attention and norms, where the name of the kernel or operator has it
  bool recomputed = false;          // a forward that runs again in the backward
  bool has_recomputed = false;      // the timeline separates these from other forwards
  std::string format;               // of a GEMM: "fp4", "fp8", "bf16", "fp32"; empty: not known
  std::array<double, 3> extents{};  // of a GEMM: m, n, k; 0: not known
  std::int32_t layer = -1;
  double start_s = 0, seconds = 0, log_seconds = 0;

  bool anchor() const { return !communicates && row <= MatchRow::attention; }
};

// Returns the kernels of a timeline by start: those of a pipeline rank, or all of a trace.
std::vector<MatchItem> match_items(const model::Timeline& timeline, std::optional<std::int32_t> rank);

// Returns the FLOPs of a GEMM of a trace, 0 where the trace does not have its shape.
double traced_flops(const model::Kernel& kernel);

// same: of one class, as far as the names state it. similar: memory-bound kernels that one framework fuses and another
// runs one by one.
// none also where the shapes of GEMMs exclude each other.
enum class Likeness : std::uint8_t { none, similar, same };
Likeness likeness(const MatchItem& predicted, const MatchItem& measured);

// Whether a GEMM can be a part of another, or stand for it: their extents are equal, or differ in one, as of the query
// of a fused projection of queries, keys and values, in either order of rows and columns. True where the shape of one
// is not known.
bool may_be_part(const MatchItem& predicted, const MatchItem& measured);

// Returns what phase and layer speak for a match, where both have them.
double place_evidence(const MatchItem& predicted, const MatchItem& measured);
// Returns what speaks for a match beyond the class: phase and layer, shape and format, where both have them.
double evidence(const MatchItem& predicted, const MatchItem& measured);

}  // namespace plumbline::calibrate
