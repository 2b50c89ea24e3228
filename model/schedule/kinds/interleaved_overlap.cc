// Interleaved 1F1B with overlapped expert all-to-all, Megatron's counterpart of DualPipe. One more warm-up forward
// makes the forward and the backward of a pair independent, so that each hides the other's all-to-all.
#include <algorithm>

#include "model/schedule/kinds/interleaving.h"
#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

std::int32_t warm_up_of(const ScheduleShape& shape, std::int32_t rank) {
  return std::min(interleaved_warm_up(shape, rank) + 1, shape.virtual_stages * shape.micro_batches);
}

class InterleavedOverlap final : public ScheduleKind {
 public:
  std::string_view name() const override { return "interleaved-overlap"; }

  Result<void> check(const ScheduleShape& shape) const override { return check_interleaving(name(), shape); }

  Schedule outline(const ScheduleShape& shape) const override { return interleaved_outline(name(), shape); }

  Schedule build(const ScheduleShape& shape) const override {
    return interleaved_schedule(name(), shape, warm_up_of, true);
  }

  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    if (shape.ranks > 1 || shape.virtual_stages > 1) return std::nullopt;
    return costs.F + (shape.micro_batches - 1) * costs.FB + costs.B;  // one rank: a forward, pairs, a backward
  }

  // In a pair the forward's activation is counted before the backward frees one.
  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t rank) const override {
    return std::min(warm_up_of(shape, rank) + 1, shape.virtual_stages * shape.micro_batches);
  }
};

}  // namespace

const ScheduleKind& interleaved_overlap() {
  static const InterleavedOverlap kind;
  return kind;
}

}  // namespace plumbline::model
