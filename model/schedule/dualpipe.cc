// DualPipe (DeepSeek-V3, arXiv 2412.19437): micro-batches enter the pipeline at both ends, and the forward
// of one direction overlaps the backward of the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "model/schedule/kinds.h"

namespace plumbline::model {
namespace {

// Writes the program of one rank. Directions are as seen from the lower half; the upper half swaps them.
class RankProgram {
 public:
  RankProgram(std::int32_t ranks, std::int32_t rank)
      : ranks_(ranks), rank_(rank), half_(ranks / 2), distance_(std::min(rank, ranks - 1 - rank)) {}

  void write(std::int32_t micro_batches);

  std::vector<ScheduleOp> take_ops() { return std::move(ops_); }
  std::vector<Posting> take_postings() { return std::move(postings_); }

 private:
  void fill();                      // steps 1 to 3
  void steady(std::int32_t pairs);  // step 4
  void drain();                     // steps 5 to 8

  std::int32_t next() const { return static_cast<std::int32_t>(ops_.size()); }
  bool middle() const { return distance_ == half_ - 1; }
  std::int32_t direction(std::int32_t side) const { return rank_ < half_ ? side : 1 - side; }
  std::int32_t stage(std::int32_t dir) const { return dir == 0 ? rank_ : ranks_ - 1 - rank_; }

  void forward(std::int32_t side) {
    const std::int32_t dir = direction(side);
    ops_.push_back(forward_op(dir, stage(dir), forwards_[dir]++));
  }
  void backward(std::int32_t side, OpType type) {
    const std::int32_t dir = direction(side);
    ops_.push_back(backward_op(type, dir, stage(dir), backwards_[dir]++));
    if (type == OpType::I) open_weights_.push_back(ops_.back());
  }
  void weight() {
    ops_.push_back(open_weights_.front());
    ops_.back().type = OpType::W;
    open_weights_.pop_front();
  }
  void pair(std::int32_t forward_side, std::int32_t backward_side) {
    forward(forward_side);
    const std::int32_t dir = direction(backward_side);
    ScheduleOp& op = ops_.back();
    op.type = OpType::FB;
    op.b_dir = dir;
    op.b_stage = stage(dir);
    op.b_mb = backwards_[dir]++;
  }
  // The message of op's forward goes out, or is asked for, with batch `batch`.
  void post_send(std::int32_t op, std::int32_t batch) { postings_.push_back({op, true, true, batch}); }
  void post_receive(std::int32_t op, std::int32_t batch) { postings_.push_back({op, false, true, batch}); }

  std::int32_t ranks_, rank_, half_, distance_;
  std::int32_t forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
  std::deque<ScheduleOp> open_weights_;  // input gradients whose weight gradient is still to come
  std::vector<ScheduleOp> ops_;
  std::vector<Posting> postings_;
};

void RankProgram::write(std::int32_t micro_batches) {
  fill();
  steady(micro_batches / 2 - ranks_ + distance_ + 1);
  drain();
}

// In step 2 a rank asks for its next F0 already with the batch of F1, and an outer rank sends the result of
// F0 only after F1, together with the result of F1. Sent right after F0 it would block F1, whose input
// comes from the very neighbour that waits: with blocking batches the pipeline would stand still.
void RankProgram::fill() {
  for (std::int32_t i = 0; i < 2 * (half_ - distance_ - 1); ++i) forward(0);
  for (std::int32_t i = 0; i <= distance_; ++i) {
    if (i > 0) post_receive(next(), next() - 1);
    if (!middle()) post_send(next(), next() + 2);
    forward(0);
    if (middle() && i == distance_) post_send(next(), next() + 2);
    forward(1);
  }
  const std::int32_t last_forward = next() - 1;
  for (std::int32_t i = 0; i < half_ - distance_ - 1; ++i) {
    backward(1, OpType::I);
    post_receive(next() + 1, next());
    weight();
    forward(1);
  }
  post_receive(next(), last_forward);  // the F0 that opens step 4
}

// The two middle ranks run their first pair one after the other, which shortens the bubble.
void RankProgram::steady(std::int32_t pairs) {
  for (std::int32_t i = 0; i < pairs; ++i) {
    if (i == 0 && middle()) {
      post_send(next(), next() + 2);
      forward(0);
      backward(1, OpType::B);
    } else {
      pair(0, 1);
    }
    pair(1, 0);
  }
}

// Half-way through step 6 backwards are split, so that their weight gradients can fill the holes of step 7.
void RankProgram::drain() {
  for (std::int32_t i = 0; i < half_ - distance_ - 1; ++i) {
    backward(1, OpType::B);
    pair(1, 0);
  }
  const std::int32_t switch_at = (distance_ + 1) / 2;
  const bool before_side_1 = distance_ % 2 == 1;
  for (std::int32_t i = 0; i <= distance_; ++i) {
    const bool split_1 = i > switch_at || (i == switch_at && before_side_1);
    backward(1, split_1 ? OpType::I : OpType::B);
    backward(0, i >= switch_at ? OpType::I : OpType::B);
  }
  for (std::int32_t i = 0; i < half_ - distance_ - 1; ++i) {
    weight();
    backward(0, OpType::I);
  }
  for (std::int32_t i = 0; i <= distance_; ++i) weight();
}

class DualPipe final : public ScheduleKind {
 public:
  std::string_view name() const override { return "dualpipe"; }

  Result<void> check(const ScheduleShape& shape) const override {
    if (auto single = check_single_chunk(name(), shape); !single) return single;
    if (shape.ranks % 2 != 0) {
      return infeasible_shape(
          fmt::format("dualpipe needs an even number of ranks, not {}: each rank holds a stage of either direction",
                      shape.ranks),
          "ranks", fmt::format("use {} ranks", shape.ranks + 1));
    }
    const std::int32_t least = 2 * shape.ranks;
    if (shape.micro_batches < least) {
      return infeasible_shape(
          fmt::format("dualpipe on {} ranks needs at least {} micro-batches (both directions), not {}", shape.ranks,
                      least, shape.micro_batches),
          "micro_batches", "raise the micro-batches per pipeline or lower the number of ranks");
    }
    if (shape.micro_batches % 2 != 0) {
      return infeasible_shape(
          fmt::format("dualpipe needs an even number of micro-batches, not {}: half of them go each way",
                      shape.micro_batches),
          "micro_batches", fmt::format("use {} micro-batches", shape.micro_batches + 1));
    }
    return {};
  }

  Schedule build(const ScheduleShape& shape) const override {
    Schedule schedule;
    schedule.kind = name();
    schedule.shape = shape;
    schedule.stages = shape.ranks;
    schedule.directions = 2;
    schedule.point_to_point = PointToPoint::batched;
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      RankProgram program(shape.ranks, rank);
      program.write(shape.micro_batches);
      schedule.ranks.push_back(program.take_ops());
      schedule.postings.push_back(program.take_postings());
    }
    return schedule;
  }

  // Known for max(F, B) <= FB <= F + B, B = I + W, without hops. The critical path: the first backward of the
  // middle starts at 2H F + max(H F, (H-1) I); then come one B and M-2H-1 pairs there, H-1 pairs outwards, and
  // the last gradient over all 2H stages as B + (2H-1) I, and a W. In step 7 of H-1 ranks a W longer than an I
  // holds that gradient up.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const auto [F, B, I, W, FB, p2p] = costs;
    const double slack = 1e-12 * (F + B);  // costs that were added up elsewhere
    if (p2p != 0 || std::abs(B - I - W) > slack) return std::nullopt;
    if (FB < std::max(F, B) - slack || FB > F + B + slack) return std::nullopt;
    const double H = shape.ranks / 2.0, M = shape.micro_batches;  // an even number of ranks
    return (M - H - 2) * FB + (2 * H + 1) * B - 2 * (H - 1) * W + 2 * H * F + std::max(H * F, (H - 1) * I) +
           (H - 1) * std::max(0.0, W - I);
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override { return shape.ranks + 1; }
};

}  // namespace

const ScheduleKind& dualpipe() {
  static const DualPipe kind;
  return kind;
}

}  // namespace plumbline::model
