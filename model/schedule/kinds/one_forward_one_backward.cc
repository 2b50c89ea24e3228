// 1F1B with flush (Narayanan et al., arXiv 2104.04473): rank r warms up with P-1-r forwards, alternates one forward and
// one backward, and drains the backwards that remain.
#include <algorithm>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

class OneForwardOneBackward final : public SingleChunkKind {
 public:
  std::string_view name() const override { return "1f1b"; }

  // Software sends a result and receives what the next op needs in one batch, for which it waits: Megatron-Core's
  // send_forward_recv_backward (megatron/core/pipeline_parallel/schedules.py), PyTorch's Schedule1F1B
  // (torch/distributed/pipelining/schedules.py, _batch_p2p).
  Schedule outline(const ScheduleShape& shape) const override {
    Schedule schedule = single_chunk_outline(name(), shape);
    schedule.point_to_point = PointToPoint::batched;
    return schedule;
  }

  Schedule build(const ScheduleShape& shape) const override {
    Schedule schedule = outline(shape);
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      auto& ops = schedule.ranks.emplace_back();
      const std::int32_t warm_up = std::min(shape.ranks - 1 - rank, shape.micro_batches);
      for (std::int32_t mb = 0; mb < warm_up; ++mb) ops.push_back(forward_op(0, rank, mb));
      for (std::int32_t mb = 0; mb < shape.micro_batches; ++mb) {
        if (mb + warm_up < shape.micro_batches) ops.push_back(forward_op(0, rank, mb + warm_up));
        ops.push_back(backward_op(OpType::B, 0, rank, mb));
      }
    }
    return schedule;
  }

  // Fill and drain cost P-1 forwards and backwards. With transfer times the longest path makes M/P round trips over all
  // ranks and one over P-1 of them, which is exact for whole groups of P, at least two.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const std::int32_t P = shape.ranks, M = shape.micro_batches;
    if (M < P) return std::nullopt;
    const double compute = (M + P - 1.0) * (costs.F + costs.B);
    if (P == 1 || costs.p2p == 0) return compute;
    if (M % P != 0 || M < 2 * P) return std::nullopt;
    const std::int32_t rounds = M / P;
    return compute + (2.0 * (P - 1) * rounds + 2.0 * (P - 2)) * costs.p2p;
  }

  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t rank) const override {
    return std::min(shape.ranks - rank, shape.micro_batches);
  }
};

}  // namespace

const ScheduleKind& one_forward_one_backward() { return the_one<OneForwardOneBackward>(); }

}  // namespace plumbline::model
