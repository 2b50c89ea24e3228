// ZB-H2 (Qi et al., arXiv 2401.10241): twice the warm-up of ZB-H1 and twice its delay of weight gradients. With
// equal costs no rank waits between its first and its last op; in return it holds 2P-1 activations.
#include <algorithm>
#include <cmath>

#include "model/schedule/kinds/kinds.h"
#include "model/schedule/kinds/split_backward.h"

namespace plumbline::model {
namespace {

class ZeroBubbleH2 final : public ScheduleKind {
 public:
  std::string_view name() const override { return "zb-h2"; }

  Result<void> check(const ScheduleShape& shape) const override { return check_single_chunk(name(), shape); }

  Schedule outline(const ScheduleShape& shape) const override { return single_chunk_outline(name(), shape); }

  Schedule build(const ScheduleShape& shape) const override { return split_backward_schedule(name(), shape, 2); }

  // At F = I = W the last rank starts after P-1 forwards and never waits; its last 2P-1 weight gradients give the
  // last input gradient the time to reach rank 0.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const double P = shape.ranks, M = shape.micro_batches;
    const double work = M * (costs.F + costs.I + costs.W);
    if (P == 1) return work;
    const double slack = 1e-12 * costs.F;  // costs that were added up elsewhere
    const bool equal = std::abs(costs.F - costs.I) <= slack && std::abs(costs.F - costs.W) <= slack;
    if (costs.p2p != 0 || !equal || M < 2 * P) return std::nullopt;
    return work + (P - 1) * costs.F;
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
