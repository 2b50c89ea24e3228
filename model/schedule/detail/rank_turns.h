// The order in which ranks append their ops to a schedule's table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace plumbline::model::detail {

// The order is that of passes over all ranks: a rank that is woken by a lower one has its turn in the same pass, others
// in the next. Ranks that wait take no turn, so the cost grows with ops and not with ranks times passes.
class RankTurns {
 public:
  explicit RankTurns(std::size_t ranks) : waiting_(ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) now_.insert(now_.end(), rank);
  }

  // Returns the rank whose turn it is; nothing when every rank has ended or waits.
  std::optional<std::size_t> next() {
    if (now_.empty()) std::swap(now_, later_);
    if (now_.empty()) return std::nullopt;
    return now_.extract(now_.begin()).value();
  }

  // The rank takes no turn until op `op` of `producer` is appended.
  void wait(std::size_t rank, std::size_t producer, std::int64_t op) { waiting_[producer].emplace_back(op, rank); }

  // Gives turns to the ranks that wait for ops of `producer` up to `op`.
  void appended(std::size_t producer, std::int64_t op) {
    std::erase_if(waiting_[producer], [&](const auto& one) {
      if (one.first > op) return false;
      (one.second > producer ? now_ : later_).insert(one.second);
      return true;
    });
  }

 private:
  std::set<std::size_t> now_, later_;                                       // ranks of this pass and of the next
  std::vector<std::vector<std::pair<std::int64_t, std::size_t>>> waiting_;  // by producer: its op, and who waits for it
};

}  // namespace plumbline::model::detail
