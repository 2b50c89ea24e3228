// Schedules of one chunk per rank that split every backward into its input gradient and its weight gradient (Qi et al.,
// arXiv 2401.10241).
#include <algorithm>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

// Returns a program of `warm_up` forwards; then in turn one forward, one input gradient and the weight gradient of
// `delay` micro-batches ago; then the remaining weight gradients. The rank holds at most warm_up + 1 + delay
// activations, and never more than M.
std::vector<ScheduleOp> program_of(std::int32_t rank, std::int32_t micro_batches, std::int32_t warm_up,
                                   std::int32_t delay) {
  std::vector<ScheduleOp> ops;
  ops.reserve(3 * static_cast<std::size_t>(micro_batches));
  std::int32_t forwards = 0;
  const auto forward = [&] {
    if (forwards < micro_batches) ops.push_back(forward_op(0, rank, forwards++));
  };
  for (std::int32_t i = 0; i < warm_up; ++i) forward();
  for (std::int32_t mb = 0; mb < micro_batches; ++mb) {
    forward();
    ops.push_back(backward_op(OpType::I, 0, rank, mb));
    if (mb >= delay) ops.push_back(backward_op(OpType::W, 0, rank, mb - delay));
  }
  for (std::int32_t mb = std::max(0, micro_batches - delay); mb < micro_batches; ++mb)
    ops.push_back(backward_op(OpType::W, 0, rank, mb));
  return ops;
}

// Rank r warms up with depth * (P-1-r) forwards and delays its weight gradients by depth * r, so that every rank holds
// depth * (P-1) + 1 activations.
Schedule split_backward_schedule(std::string_view name, const ScheduleShape& shape, std::int32_t depth) {
  Schedule schedule = single_chunk_outline(name, shape);
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank)
    schedule.ranks.push_back(program_of(rank, shape.micro_batches, depth * (shape.ranks - 1 - rank), depth * rank));
  post_receives_ahead(schedule);
  return schedule;
}

// ZB-H1, also known as ZB1P: 1F1B with split backwards. Weight gradients fill a part of the bubble at the memory of
// 1F1B's first rank.
class ZeroBubbleH1 final : public SingleChunkKind {
 public:
  std::string_view name() const override { return "zb-h1"; }

  Schedule build(const ScheduleShape& shape) const override { return split_backward_schedule(name(), shape, 1); }

  // The last rank starts after P-1 forwards and never waits. Its last P weight gradients run while the last input
  // gradient passes the P-1 other ranks, where one weight gradient ends the step:
  //   (P-1) F + M (F+I+W) - P W + (P-1) I + W.
  // A longer W would delay that gradient.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const double P = shape.ranks, M = shape.micro_batches;
    const auto [F, B, I, W, FB, p2p] = costs;
    const double work = M * (F + I + W);
    if (P == 1) return work;
    if (p2p != 0 || W > std::min(F, I) || M < 2 * P) return std::nullopt;
    return work + (P - 1) * (F + I - W);
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override {
    return std::min(shape.ranks, shape.micro_batches);
  }
};

// ZB-H2: twice the warm-up of ZB-H1 and twice its delay of weight gradients. With equal costs no rank waits between its
// first and its last op; in return it holds 2P-1 activations.
class ZeroBubbleH2 final : public SingleChunkKind {
 public:
  std::string_view name() const override { return "zb-h2"; }

  Schedule build(const ScheduleShape& shape) const override { return split_backward_schedule(name(), shape, 2); }

  // At F = I = W the last rank starts after P-1 forwards and never waits. Its last 2P-1 weight gradients cover the time
  // in which the last input gradient reaches rank 0.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    return makespan_without_waits(shape, costs, 1);
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override {
    return std::min(2 * shape.ranks - 1, shape.micro_batches);
  }
};

}  // namespace

const ScheduleKind& zb_h1() { return the_one<ZeroBubbleH1>(); }
const ScheduleKind& zb_h2() { return the_one<ZeroBubbleH2>(); }

}  // namespace plumbline::model
