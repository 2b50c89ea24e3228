// Declares the schedules and what their files share. A new schedule adds its accessor here and its line to kinds.cc.
#pragma once

#include <optional>
#include <string_view>

#include "model/schedule/schedule.h"

namespace plumbline::model {

const ScheduleKind& gpipe();
const ScheduleKind& one_forward_one_backward();
const ScheduleKind& interleaved();
const ScheduleKind& interleaved_overlap();
const ScheduleKind& zb_h1();
const ScheduleKind& zb_h2();
const ScheduleKind& zb_v();
const ScheduleKind& dualpipe();
const ScheduleKind& dualpipev();

// Returns the object of a kind.
template <class Kind>
const ScheduleKind& the_one() {
  static const Kind kind;
  return kind;
}

// Requires at least one rank, one micro-batch and one chunk per rank, and no more chunks than can be held.
Result<void> check_counts(const ScheduleShape& shape);
// Checks a schedule without micro-batch groups.
Result<void> check_ungrouped(std::string_view name, const ScheduleShape& shape);
// Checks a schedule whose ranks always hold two chunks: virtual_stages is 2, or 1 where it was left out.
Result<void> check_vee(std::string_view name, const ScheduleShape& shape);
// Checks a schedule with one chunk per rank: no virtual stages and no micro-batch groups.
Result<void> check_single_chunk(std::string_view name, const ScheduleShape& shape);

// Base class of the schedules with one stage on each rank.
class SingleChunkKind : public ScheduleKind {
 public:
  Result<void> check(const ScheduleShape& shape) const override { return check_single_chunk(name(), shape); }
  Schedule outline(const ScheduleShape& shape) const override;
};

// Returns the exact makespan of a schedule with `chunks` per rank whose last rank starts after P-1 forwards and never
// waits. Schedules with split backwards have it at F = I = W, without transfer time and with at least 2P micro-batches;
// for other costs there is none.
std::optional<double> makespan_without_waits(const ScheduleShape& shape, const ScheduleCosts& costs, double chunks);

// Return outlines with one stage per rank, and with two stages per rank laid out as a V.
Schedule single_chunk_outline(std::string_view name, const ScheduleShape& shape);
Schedule vee_outline(std::string_view name, const ScheduleShape& shape);

ScheduleOp forward_op(std::int32_t direction, std::int32_t stage, std::int32_t micro_batch);
// `type` is B, I or W.
ScheduleOp backward_op(OpType type, std::int32_t direction, std::int32_t stage, std::int32_t micro_batch);

// Prevents the deadlock of a schedule under blocking batches: posts each receive with the first op that starts after
// the message has come, in a run with eager sends and integer costs. A batch then waits only for ops that started
// before its own op in that run. So no cycle of waits can arise, whatever ops and transfers cost.
void post_receives_ahead(Schedule& schedule);

}  // namespace plumbline::model
