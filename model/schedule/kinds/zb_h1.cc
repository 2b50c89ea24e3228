// ZB-H1, also known as ZB1P (Qi et al., arXiv 2401.10241): 1F1B with split backwards. Weight gradients fill a part of
// the bubble at the memory of 1F1B's first rank.
#include <algorithm>

#include "model/schedule/kinds/kinds.h"
#include "model/schedule/kinds/split_backward.h"

namespace plumbline::model {
namespace {

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

}  // namespace

const ScheduleKind& zb_h1() {
  static const ZeroBubbleH1 kind;
  return kind;
}

}  // namespace plumbline::model
