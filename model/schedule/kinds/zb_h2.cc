// ZB-H2 (Qi et al., arXiv 2401.10241): twice the warm-up of ZB-H1 and twice its delay of weight gradients. With equal
// costs no rank waits between its first and its last op; in return it holds 2P-1 activations.
#include <algorithm>

#include "model/schedule/kinds/kinds.h"
#include "model/schedule/kinds/split_backward.h"

namespace plumbline::model {
namespace {

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

const ScheduleKind& zb_h2() {
  static const ZeroBubbleH2 kind;
  return kind;
}

}  // namespace plumbline::model
