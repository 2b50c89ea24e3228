// How kernels of a trace are matched with those of a predicted step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/match/detail/alignment.h"
#include "calibrate/match/trace_comparison.h"
#include "model/result/timeline.h"

namespace plumbline::calibrate {

// What the alignment of a trace with a predicted step sees of a kernel.
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

// What speaks for the match of a predicted and a measured kernel that compute.

// The score of an alignment (detail/alignment.h) of two sequences, which must outlive it.
class ComputeScore {
 public:
  ComputeScore(const std::vector<MatchItem>& predicted, const std::vector<MatchItem>& measured);

  // Returns whether one of them may stand for several of the other: those of one class and one place.
  bool same(std::size_t i, std::size_t j) const;
  // Returns the gain of a match, which is far below 0 where the classes differ.
  double operator()(std::size_t i, std::size_t j) const;
  // Returns the gain of a match of GEMM i with the measured [j, j + count), which are shorter and add up to it:
  // queries, keys and values, or gate and up, that run one by one. Below 0 where one of them is no part of it.
  double parts(std::size_t i, std::size_t j, std::size_t count) const;
  static constexpr std::size_t most_parts = 4;
  // Takes how long GEMMs are against the prediction from the sums that an alignment of the sequences matches. Until
  // then it is one or follows from the means, which are shorter where the trace runs GEMMs in parts.
  void scale_gemms(const Alignment& alignment);
  // Returns whether these times of kernels of the class of `predicted`, of which one stands for several, are within a
  // factor of 3, by themselves or against the mean of the class.
  bool fits(const MatchItem& predicted, double log_measured, double log_predicted) const;

 private:
  double time_cost(const MatchItem& predicted, double log_measured) const;

  const std::vector<MatchItem>& predicted_;
  const std::vector<MatchItem>& measured_;
  std::array<double, match_rows> scale_{};  // logarithm of measured over predicted seconds
  bool summed_ = false;                     // that of GEMMs is of sums
};

// The match of the kernels that compute: those of a trace, in whatever order it ran them, with those of a step.

// Adds the matches of the kernels that compute, given by start, to `result`, whose vectors have the lengths of the
// timelines; sets its scores.
void match_compute(const std::vector<MatchItem>& predicted, const std::vector<MatchItem>& measured, StepMatch& result);

// Adds what an alignment of these items found.
void add_matches(const Alignment& alignment, const std::vector<MatchItem>& predicted,
                 const std::vector<MatchItem>& measured, MatchedBy by, StepMatch& result);

// Returns the items that `keep` accepts.
template <class Keep>
std::vector<MatchItem> chosen(const std::vector<MatchItem>& items, const Keep& keep) {
  std::vector<MatchItem> found;
  for (const MatchItem& item : items)
    if (keep(item)) found.push_back(item);
  return found;
}

}  // namespace plumbline::calibrate
