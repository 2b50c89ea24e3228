// DualPipeV is DualPipe cut in half: one direction through 2P stages laid out as a V. It needs no ranks for the other
// direction, and no stage is held twice.
#include <fmt/format.h>

#include <algorithm>

#include "model/schedule/kinds/bidirectional.h"
#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

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

const ScheduleKind& dualpipev() {
  static const DualPipeV kind;
  return kind;
}

}  // namespace plumbline::model
