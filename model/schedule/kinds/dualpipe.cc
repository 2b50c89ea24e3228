// DualPipe (DeepSeek-V3, arXiv 2412.19437): micro-batches enter the pipeline at both ends, and the forward of one
// direction overlaps the backward of the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/schedule/kinds/bidirectional.h"
#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

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

}  // namespace

const ScheduleKind& dualpipe() {
  static const DualPipe kind;
  return kind;
}

}  // namespace plumbline::model
