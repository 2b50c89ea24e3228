// ZB-V (Qi et al., arXiv 2405.15362): two chunks per rank laid out as a V and split backwards. With equal costs no rank
// waits between its first and its last op, at the memory of 1F1B: 2P chunks of half a rank's layers.
#include <algorithm>
#include <array>
#include <deque>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

// Builds the order by running the pipeline with ops of equal length. While forwards remain, a rank runs a forward when
// its memory allows one, else frees memory with a weight gradient, else runs an input gradient. After that it runs
// input gradients, and weight gradients when none is ready. Forwards of the second chunk precede those of the first,
// and input gradients of the first chunk those of the second, because they are nearer to their end. A rank runs at most
// 2(P-1-rank)+1 forwards of its first chunk ahead of its second. That covers the way down the V and back and leaves the
// rest of the memory to the second chunk.
class Builder {
 public:
  Builder(std::int32_t ranks, std::int32_t micro_batches)
      : ranks_(ranks), micro_batches_(micro_batches), state_(static_cast<std::size_t>(ranks)) {}

  std::vector<std::vector<ScheduleOp>> operator()() {
    std::int64_t left = std::int64_t{6} * ranks_ * micro_batches_;
    while (left > 0) {
      std::vector<std::pair<std::int32_t, Choice>> slot;  // chosen from the state before the slot
      for (std::int32_t rank = 0; rank < ranks_; ++rank) {
        const Choice choice = choose(rank);
        if (choice.chunk >= 0) slot.emplace_back(rank, choice);
      }
      for (const auto& [rank, choice] : slot) run(rank, choice);
      left -= static_cast<std::int64_t>(slot.size());
    }
    std::vector<std::vector<ScheduleOp>> programs;
    for (Rank& rank : state_) programs.push_back(std::move(rank.ops));
    return programs;
  }

 private:
  struct Choice {
    OpType type = OpType::F;
    std::int32_t chunk = -1;  // -1: nothing to do
  };
  // Counts of finished ops by chunk; every chunk takes its micro-batches in order.
  struct Rank {
    std::array<std::int32_t, 2> forwards{}, gradients{};
    std::deque<ScheduleOp> open_weights;
    std::int32_t held = 0;
    std::vector<ScheduleOp> ops;
  };

  const Rank& at(std::int32_t rank) const { return state_[static_cast<std::size_t>(rank)]; }
  std::int32_t stage(std::int32_t rank, std::int32_t chunk) const { return chunk == 0 ? rank : 2 * ranks_ - 1 - rank; }

  bool forward_ready(std::int32_t rank, std::size_t chunk) const {
    const std::int32_t next = at(rank).forwards[chunk];
    if (next == micro_batches_) return false;
    if (chunk == 0) return rank == 0 || at(rank - 1).forwards[0] > next;
    return rank == ranks_ - 1 ? at(rank).forwards[0] > next : at(rank + 1).forwards[1] > next;
  }
  bool gradient_ready(std::int32_t rank, std::size_t chunk) const {
    const std::int32_t next = at(rank).gradients[chunk];
    if (at(rank).forwards[chunk] <= next) return false;
    if (chunk == 1) return rank == 0 || at(rank - 1).gradients[1] > next;
    return rank == ranks_ - 1 ? at(rank).gradients[1] > next : at(rank + 1).gradients[0] > next;
  }

  Choice choose(std::int32_t rank) const {
    const Rank& self = at(rank);
    const bool filling = self.forwards[1] < micro_batches_;
    const bool full = self.held == 2 * ranks_;
    if (filling && !full) {
      if (forward_ready(rank, 1)) return {OpType::F, 1};
      const std::int32_t lead = self.forwards[0] - self.forwards[1];
      if (lead <= 2 * (ranks_ - 1 - rank) && forward_ready(rank, 0)) return {OpType::F, 0};
    }
    const Choice weight{OpType::W, self.open_weights.empty() ? -1 : 0};
    if (filling && full && weight.chunk >= 0) return weight;
    if (gradient_ready(rank, 0)) return {OpType::I, 0};
    if (gradient_ready(rank, 1)) return {OpType::I, 1};
    return weight;
  }

  void run(std::int32_t rank, const Choice& choice) {
    Rank& self = state_[static_cast<std::size_t>(rank)];
    const auto chunk = static_cast<std::size_t>(choice.chunk);
    switch (choice.type) {
      case OpType::F:
        self.ops.push_back(forward_op(0, stage(rank, choice.chunk), self.forwards[chunk]++));
        ++self.held;
        break;
      case OpType::I:
        self.ops.push_back(backward_op(OpType::I, 0, stage(rank, choice.chunk), self.gradients[chunk]++));
        self.open_weights.push_back(self.ops.back());
        break;
      default:
        self.ops.push_back(self.open_weights.front());
        self.ops.back().type = OpType::W;
        self.open_weights.pop_front();
        --self.held;
    }
  }

  std::int32_t ranks_, micro_batches_;
  std::vector<Rank> state_;
};

class ZeroBubbleV final : public ScheduleKind {
 public:
  std::string_view name() const override { return "zb-v"; }

  Result<void> check(const ScheduleShape& shape) const override { return check_vee(name(), shape); }

  Schedule outline(const ScheduleShape& shape) const override { return vee_outline(name(), shape); }

  Schedule build(const ScheduleShape& shape) const override {
    Schedule schedule = outline(shape);
    schedule.ranks = Builder(shape.ranks, shape.micro_batches)();
    post_receives_ahead(schedule);
    return schedule;
  }

  // At F = I = W the last rank starts after P-1 forwards and never waits.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    return makespan_without_waits(shape, costs, 2);
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override {
    return 2 * std::min(shape.ranks, shape.micro_batches);
  }
};

}  // namespace

const ScheduleKind& zb_v() { return the_one<ZeroBubbleV>(); }

}  // namespace plumbline::model
