// GPipe (Huang et al., arXiv 1811.06965): all forwards, then all backwards, both in order 0..M-1.
#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

class GPipe final : public SingleChunkKind {
 public:
  std::string_view name() const override { return "gpipe"; }

  Schedule build(const ScheduleShape& shape) const override {
    Schedule schedule = outline(shape);
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      auto& ops = schedule.ranks.emplace_back();
      for (std::int32_t mb = 0; mb < shape.micro_batches; ++mb) ops.push_back(forward_op(0, rank, mb));
      for (std::int32_t mb = 0; mb < shape.micro_batches; ++mb) ops.push_back(backward_op(OpType::B, 0, rank, mb));
    }
    return schedule;
  }

  // The last rank starts after P-1 forwards and transfers and never waits again. The gradient of the last micro-batch
  // then takes P-1 backwards and transfers to rank 0.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const double P = shape.ranks, M = shape.micro_batches;
    return (M + P - 1) * (costs.F + costs.B) + 2 * (P - 1) * costs.p2p;
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override { return shape.micro_batches; }
};

}  // namespace

const ScheduleKind& gpipe() { return the_one<GPipe>(); }

}  // namespace plumbline::model
