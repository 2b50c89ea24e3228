// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473): v chunks per rank shrink the bubble to 1/v of 1F1B's, with
// more activations and v times the transfers.
#include <algorithm>

#include "model/schedule/kinds/interleaving.h"
#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

class Interleaved final : public ScheduleKind {
 public:
  std::string_view name() const override { return "interleaved"; }

  Result<void> check(const ScheduleShape& shape) const override { return check_interleaving(name(), shape); }

  Schedule outline(const ScheduleShape& shape) const override { return interleaved_outline(name(), shape); }

  Schedule build(const ScheduleShape& shape) const override {
    return interleaved_schedule(name(), shape, interleaved_warm_up, false);
  }

  // With whole groups of P the last rank starts after P-1 forwards and never waits; the last gradient then takes P-1
  // backwards to rank 0. No exact formula is known with transfer times.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const double P = shape.ranks, chunks = static_cast<double>(shape.virtual_stages) * shape.micro_batches;
    const double work = chunks * (costs.F + costs.B);
    if (shape.ranks == 1) return work;
    if (costs.p2p != 0 || shape.micro_batches % shape.ranks != 0) return std::nullopt;
    if (shape.virtual_stages > 1 && micro_batch_group(shape) != shape.ranks) return std::nullopt;
    return work + (P - 1) * (costs.F + costs.B);
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t rank) const override {
    return std::min(interleaved_warm_up(shape, rank) + 1, shape.virtual_stages * shape.micro_batches);
  }
};

}  // namespace

const ScheduleKind& interleaved() {
  static const Interleaved kind;
  return kind;
}

}  // namespace plumbline::model
