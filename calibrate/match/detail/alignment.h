// The best alignment of two sequences, in which elements of both may be left out and one may stand for several of the
// other (Needleman and Wunsch, J. Mol. Biol. 48, 1970, with joins as in dynamic time warping).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plumbline::calibrate {

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

}  // namespace plumbline::calibrate
