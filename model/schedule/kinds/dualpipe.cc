// Schedules whose ranks hold two chunks each, and overlap the forward of one with the backward of the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

// The program that DualPipe and DualPipeV share. A rank holds two chunks, one of each side: micro-batches pass side 0
// on the way in from the nearer end, and side 1 on the way out.
struct BidirectionalRank {
  std::int32_t inner_ranks = 1;        // H: ranks from an end to the middle
  std::int32_t distance = 0;           // h: 0 at the end, H-1 innermost
  std::int32_t direction[2] = {0, 0};  // direction of each side
  std::int32_t stage[2] = {0, 0};      // stage of each side
  std::int32_t pairs = 0;              // step 4: number of overlapped pairs of each kind
};

class RankProgram {
 public:
  explicit RankProgram(const BidirectionalRank& rank)
      : rank_(rank), half_(rank.inner_ranks), distance_(rank.distance) {}

  void write() {
    fill();
    steady();
    drain();
  }

  std::vector<ScheduleOp> take_ops() { return std::move(ops_); }
  std::vector<Posting> take_postings() { return std::move(postings_); }

 private:
  // Steps 1 to 3. In step 2 a rank posts the receive of its next F0 with the batch of F1. An outer rank sends the
  // result of F0 only after F1, together with the result of F1. Sent right after F0 it would block F1, whose input
  // comes from the rank that waits: with blocking batches the pipeline would deadlock.
  void fill() {
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

  // Step 4. The innermost ranks run their first pair one after the other, which shortens the bubble.
  void steady() {
    for (std::int32_t i = 0; i < rank_.pairs; ++i) {
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

  // Steps 5 to 8. From the middle of step 6 on backwards are split, so that their weight gradients fill the gaps of
  // step 7.
  void drain() {
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

  std::int32_t next() const { return static_cast<std::int32_t>(ops_.size()); }
  bool middle() const { return distance_ == half_ - 1; }

  void forward(std::int32_t side) {
    ops_.push_back(forward_op(rank_.direction[side], rank_.stage[side], forwards_[side]++));
  }
  void backward(std::int32_t side, OpType type) {
    ops_.push_back(backward_op(type, rank_.direction[side], rank_.stage[side], backwards_[side]++));
    if (type == OpType::I) open_weights_.push_back(ops_.back());
  }
  void weight() {
    ops_.push_back(open_weights_.front());
    ops_.back().type = OpType::W;
    open_weights_.pop_front();
  }
  void pair(std::int32_t forward_side, std::int32_t backward_side) {
    forward(forward_side);
    ScheduleOp& op = ops_.back();
    op.type = OpType::FB;
    op.b_dir = rank_.direction[backward_side];
    op.b_stage = rank_.stage[backward_side];
    op.b_mb = backwards_[backward_side]++;
  }
  // Posts the message of an op's forward, as a send or a receive, with batch `batch`.
  void post_send(std::int32_t op, std::int32_t batch) { postings_.push_back({op, true, true, batch}); }
  void post_receive(std::int32_t op, std::int32_t batch) { postings_.push_back({op, false, true, batch}); }

  BidirectionalRank rank_;
  std::int32_t half_, distance_;
  std::int32_t forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
  std::deque<ScheduleOp> open_weights_;  // weight gradients that remain after their input gradients
  std::vector<ScheduleOp> ops_;
  std::vector<Posting> postings_;
};

// Appends the next rank's program and its postings.
void append_bidirectional(const BidirectionalRank& rank, Schedule& schedule) {
  RankProgram program(rank);
  program.write();
  schedule.ranks.push_back(program.take_ops());
  schedule.postings.push_back(program.take_postings());
}

// DualPipe (DeepSeek-V3, arXiv 2412.19437): micro-batches enter the pipeline at both ends, and the forward of one
// direction overlaps the backward of the other.
class DualPipe final : public ScheduleKind {
 public:
  std::string_view name() const override { return "dualpipe"; }

  Result<void> check(const ScheduleShape& shape) const override {
    TRY(check_single_chunk(name(), shape));
    if (shape.ranks % 2 != 0)
      return infeasible(
          "ranks",
          fmt::format("dualpipe needs an even number of ranks, not {}: each rank holds a stage of either direction",
                      shape.ranks),
          fmt::format("use {} ranks", shape.ranks + 1));
    const std::int32_t least = 2 * shape.ranks;
    if (shape.micro_batches < least)
      return infeasible("micro_batches",
                        fmt::format("dualpipe on {} ranks needs at least {} micro-batches (both directions), not {}",
                                    shape.ranks, least, shape.micro_batches),
                        "raise the micro-batches per pipeline or lower the number of ranks");
    if (shape.micro_batches % 2 != 0)
      return infeasible(
          "micro_batches",
          fmt::format("dualpipe needs an even number of micro-batches, not {}: half of them go in each direction",
                      shape.micro_batches),
          fmt::format("use {} micro-batches", shape.micro_batches + 1));
    return {};
  }

  Schedule outline(const ScheduleShape& shape) const override {
    Schedule schedule = single_chunk_outline(name(), shape);
    schedule.directions = 2;
    schedule.point_to_point = PointToPoint::batched;
    schedule.placement = Placement::mirrored;
    schedule.parameter_copies = 2;
    return schedule;
  }

  Schedule build(const ScheduleShape& shape) const override {
    Schedule schedule = outline(shape);
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      BidirectionalRank program;
      program.inner_ranks = shape.ranks / 2;
      program.distance = std::min(rank, shape.ranks - 1 - rank);
      for (std::int32_t side = 0; side < 2; ++side) {  // direction 1 is nearer to the upper half
        program.direction[side] = rank < shape.ranks / 2 ? side : 1 - side;
        program.stage[side] = program.direction[side] == 0 ? rank : shape.ranks - 1 - rank;
      }
      program.pairs = shape.micro_batches / 2 - shape.ranks + program.distance + 1;
      append_bidirectional(program, schedule);
    }
    return schedule;
  }

  // The formula holds for max(F, B) <= FB <= F + B, B = I + W, without transfer times. On the critical path the first
  // backward of the middle starts at 2H F + max(H F, (H-1) I). One B and M-2H-1 pairs follow there, then H-1 pairs
  // outwards, and the last gradient over all 2H stages as B + (2H-1) I, and a W. In step 7 of H-1 ranks a W longer than
  // an I delays that gradient.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const auto [F, B, I, W, FB, p2p] = costs;
    const double slack = 1e-12 * (F + B);  // tolerance for rounding in the costs
    if (p2p != 0 || std::abs(B - I - W) > slack) return std::nullopt;
    if (FB < std::max(F, B) - slack || FB > F + B + slack) return std::nullopt;
    const double H = shape.ranks / 2.0, M = shape.micro_batches;  // an even number of ranks
    return (M - H - 2) * FB + (2 * H + 1) * B - 2 * (H - 1) * W + 2 * H * F + std::max(H * F, (H - 1) * I) +
           (H - 1) * std::max(0.0, W - I);
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override { return shape.ranks + 1; }
};

// DualPipeV is DualPipe cut in half: one direction through 2P stages laid out as a V. It needs no ranks for the other
// direction, and no stage is held twice.
class DualPipeV final : public ScheduleKind {
 public:
  std::string_view name() const override { return "dualpipev"; }

  Result<void> check(const ScheduleShape& shape) const override {
    TRY(check_vee(name(), shape));
    const std::int32_t least = 2 * shape.ranks;
    if (shape.micro_batches >= least) return {};
    return infeasible(
        "micro_batches",
        fmt::format("dualpipev on {} ranks needs at least {} micro-batches, not {}", shape.ranks, least,
                    shape.micro_batches),
        fmt::format("use {} micro-batches, or at most {} ranks", least, std::max(1, shape.micro_batches / 2)));
  }

  Schedule outline(const ScheduleShape& shape) const override {
    Schedule schedule = vee_outline(name(), shape);
    schedule.point_to_point = PointToPoint::batched;
    return schedule;
  }

  Schedule build(const ScheduleShape& shape) const override {
    Schedule schedule = outline(shape);
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      BidirectionalRank program;
      program.inner_ranks = shape.ranks;
      program.distance = rank;
      program.stage[0] = rank;
      program.stage[1] = 2 * shape.ranks - 1 - rank;
      program.pairs = shape.micro_batches - 2 * shape.ranks + rank + 1;
      append_bidirectional(program, schedule);
    }
    return schedule;
  }

  // The makespan is that of DualPipe on 2P ranks with 2M micro-batches. Its lower half runs the same program, but
  // messages that cross the middle there stay on the last rank here.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    ScheduleShape whole;
    whole.ranks = 2 * shape.ranks;
    whole.micro_batches = 2 * shape.micro_batches;
    return dualpipe().exact_makespan(whole, costs);
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override { return 2 * shape.ranks + 1; }
};

}  // namespace

const ScheduleKind& dualpipe() { return the_one<DualPipe>(); }
const ScheduleKind& dualpipev() { return the_one<DualPipeV>(); }

}  // namespace plumbline::model
