// How kernels of a trace are matched with those of a predicted step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/match/trace_comparison.h"
#include "model/result/timeline.h"

namespace plumbline::calibrate {

// The best alignment of two sequences, in which elements of both may be left out and one may stand for several of the
// other (Needleman and Wunsch, J. Mol. Biol. 48, 1970, with joins as in dynamic time warping).

struct Alignment {
  std::vector<std::int32_t> predicted_of, measured_of;  // by index of the other sequence; -1: left out
  double score = 0;
};

// What it costs to leave an element out: within the sequences, at their ends, and where it joins its neighbor's match.
struct AlignmentCosts {
  double skip = 1, end = 0.02, join = 0.3;
  bool whole = false;  // neither sequence is cut off: what follows the last match joins it where it may
};

// Rows of the matrix hold only the predicted elements near the diagonal; a row has at most 2 * width + 1 of them.
class AlignmentBand {
 public:
  AlignmentBand(std::size_t predicted, std::size_t measured, std::size_t width)
      : predicted_(predicted), measured_(measured), width_(width) {}

  std::size_t first(std::size_t row) const {
    const std::size_t middle = middle_of(row);
    return middle > width_ ? middle - width_ : 0;
  }
  std::size_t last(std::size_t row) const { return std::min(predicted_, middle_of(row) + width_); }
  // Whether a cell is at an edge behind which further predicted elements lie.
  bool edge(std::size_t row, std::size_t column) const {
    return (column == first(row) && column > 0) || (column == last(row) && column < predicted_);
  }

 private:
  std::size_t middle_of(std::size_t row) const { return measured_ == 0 ? 0 : row * predicted_ / measured_; }

  std::size_t predicted_, measured_, width_;
};

// Score has operator()(i, j), the gain of a match of predicted i with measured j, and same(i, j), whether they may
// join. It may have parts(i, j, count), the gain of a match of predicted i with all of the measured [j, j + count),
// for counts from 2 to most_parts; far below 0 where they are not its parts, and then of more that end with them, too.
template <class Score>
class Aligner {
 public:
  Aligner(std::size_t predicted, std::size_t measured, const Score& score, AlignmentCosts costs)
      : predicted_(predicted), measured_(measured), score_(score), costs_(costs) {}

  // Fills the whole matrix where it is small, since a cut sequence is far from the diagonal. Else the band is widened
  // until the best path keeps off its edges, or until the matrix has most_cells. Neighboring rows must overlap.
  Alignment run() {
    constexpr std::size_t share = 8, small = std::size_t{1} << 26, most_cells = std::size_t{1} << 28;
    const std::size_t slope = 2 * predicted_ / (measured_ + 1) + 1;
    const std::size_t limit = std::max(slope, most_cells / (2 * (measured_ + 1)));
    const bool whole = (predicted_ + 1) * (measured_ + 1) <= small;
    std::size_t width = whole ? predicted_ : std::max(slope, predicted_ / share);
    while (true) {
      width = std::min({width, limit, std::max<std::size_t>(predicted_, 1)});
      fill({predicted_, measured_, width});
      if (trace({predicted_, measured_, width}) || width >= std::min(limit, predicted_)) return std::move(result_);
      width *= 2;
    }
  }

 private:
  enum Move : std::uint8_t { both, measured_only, predicted_only, two_parts };  // and more parts behind it
  static constexpr double never = -1e30;

  static constexpr std::size_t most_parts() {
    if constexpr (requires { Score::most_parts; }) return Score::most_parts;
    return 1;
  }
  static constexpr std::size_t parts_of(Move move) {
    return move < two_parts ? 1 : 2U + static_cast<std::size_t>(move - two_parts);
  }

  double measured_cost(std::size_t row, std::size_t column) const {
    if (column == 0 || column == predicted_) return costs_.end;
    return score_.same(column - 1, row - 1) ? costs_.join : costs_.skip;
  }
  double predicted_cost(std::size_t row, std::size_t column) const {
    if (row == 0 || row == measured_) return costs_.end;
    return score_.same(column - 1, row - 1) ? costs_.join : costs_.skip;
  }

  void fill(const AlignmentBand& band) {
    offsets_.assign(measured_ + 2, 0);
    for (std::size_t row = 0; row <= measured_; ++row)
      offsets_[row + 1] = offsets_[row] + band.last(row) - band.first(row) + 1;
    moves_.assign(offsets_.back(), both);
    constexpr std::size_t kept = most_parts() + 1;  // rows from which a move may come, and the present one
    std::vector<std::vector<double>> rows(kept, std::vector<double>(predicted_ + 1, never));
    for (std::size_t row = 0; row <= measured_; ++row) {
      const std::size_t first = band.first(row), last = band.last(row);
      std::vector<double>& now = rows[row % kept];
      const std::size_t read_to = band.last(std::min(row + kept, measured_));  // by the rows that follow
      std::fill(now.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(first, 1) - 1),
                now.begin() + static_cast<std::ptrdiff_t>(read_to) + 1, never);
      for (std::size_t column = first; column <= last; ++column) {
        double best = row == 0 && column == 0 ? 0 : never;
        Move move = both;
        const auto offer = [&](double value, Move by) {
          if (value > best) {
            best = value;
            move = by;
          }
        };
        if (row > 0) {
          const std::vector<double>& before = rows[(row - 1) % kept];
          if (column > 0) offer(before[column - 1] + score_(column - 1, row - 1), both);
          offer(before[column] - measured_cost(row, column), measured_only);
        }
        if (column > first) offer(now[column - 1] - predicted_cost(row, column), predicted_only);
        if constexpr (most_parts() > 1) {
          for (std::size_t count = 2; column > 0 && count <= std::min(row, most_parts()); ++count) {
            const double gain = score_.parts(column - 1, row - count, count);
            if (gain < 0) break;
            offer(rows[(row - count) % kept][column - 1] + gain, static_cast<Move>(two_parts + (count - 2)));
          }
        }
        now[column] = best;
        moves_[offsets_[row] + column - first] = move;
      }
    }
    result_.score = rows[measured_ % kept][predicted_];
  }

  // Follows the best path back; returns whether it kept off the edges of the band.
  bool trace(const AlignmentBand& band) {
    result_.predicted_of.assign(measured_, -1);
    result_.measured_of.assign(predicted_, -1);
    bool inside = true;
    for (std::size_t row = measured_, column = predicted_; row > 0 || column > 0;) {
      inside = inside && !band.edge(row, column);
      const Move move = moves_[offsets_[row] + column - band.first(row)];
      const bool last = (move == measured_only && column == predicted_) || (move == predicted_only && row == measured_);
      const bool at_end = row == 0 || column == 0 || (last && !costs_.whole);
      const bool whole = move != measured_only && move != predicted_only;
      const bool pair = !at_end && (whole || score_.same(column - 1, row - 1));
      const std::size_t rows = move == predicted_only ? 0 : parts_of(move);
      for (std::size_t part = 1; pair && part <= rows; ++part)
        result_.predicted_of[row - part] = static_cast<std::int32_t>(column - 1);
      if (pair && move != measured_only) result_.measured_of[column - 1] = static_cast<std::int32_t>(row - 1);
      row -= rows;
      column -= move == measured_only ? 0 : 1;
    }
    return inside;
  }

  std::size_t predicted_, measured_;
  const Score& score_;
  AlignmentCosts costs_;
  std::vector<std::size_t> offsets_;  // of rows in moves_
  std::vector<Move> moves_;
  Alignment result_;
};

template <class Score>
Alignment align(std::size_t predicted, std::size_t measured, const Score& score, AlignmentCosts costs = {}) {
  return Aligner<Score>(predicted, measured, score, costs).run();
}

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
  std::optional<bool> direction;    // backward or not, by the attention around it
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

// The score of an Alignment of two sequences, which must outlive it.
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
