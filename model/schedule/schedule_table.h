// A schedule prepared for many evaluations with different costs: its ops in an order in which no op waits for a later
// one, and what its ranks hold at the moments that can have the highest memory use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/schedule/schedule.h"

namespace plumbline::model {

struct ScheduleTable {
  struct SlotClass {  // ops of one type, the same stages and the same directions
    OpType type = OpType::F;
    std::int32_t f_stage = -1, b_stage = -1;
    std::int32_t f_dir = -1, b_dir = -1;
    bool operator==(const SlotClass&) const = default;
  };
  struct Op {
    std::uint32_t needs_end = 0;  // end of its needs, which begin where the previous op's end
    std::uint32_t rank = 0, slot_class = 0;
    OpType type = OpType::F;
    bool posts = false;          // batched messages before it take a transfer of the rank's own time
    bool first_forward = false;  // first op of its forward stage on this rank
    bool last_gradient = false;  // no later op of the rank writes gradients of its backward stage
    bool last_of_run = false;    // writes gradients, and the next op of the rank that does is of another stage
    bool last_of_rank = false;
  };
  // Counts what a rank holds just before or while an op runs: chunks by phase, and messages.
  struct Moment {
    std::int32_t slot_class = -1;        // class of the op that runs; -1: none, messages travel
    std::int32_t messages = 0;           // received or waiting to leave, also between stages of this rank
    std::vector<std::int32_t> forwards;  // per stage of the rank: after F, before I (or B)
    std::vector<std::int32_t> weights;   // per stage of the rank: after I, before W
  };
  struct Rank {
    std::vector<std::int32_t> stages;  // by direction, then by stage
    std::vector<Moment> moments;       // moments that no other one dominates
    std::vector<std::uint32_t> ops;    // indices into ScheduleTable::ops, in program order
  };

  Schedule outline;                // no programs
  std::vector<SlotClass> classes;  // in order of first use, rank by rank
  std::vector<Op> ops;
  std::vector<std::uint32_t> needs;  // 2 * index of an op that must have ended, + 1 if a transfer follows it
  std::vector<Rank> ranks;
};

// Both fail (infeasible) when the schedule deadlocks, and name the ops that wait for each other. Batches and postings
// are those of `mode`; order_ops leaves the moments out.
Result<ScheduleTable> order_ops(const Schedule& schedule, PointToPoint mode);
Result<ScheduleTable> make_schedule_table(const ScheduleKind& kind, const ScheduleShape& shape);

// Returns the start of an op, given the end of the previous op of its rank and the ends of all ops earlier in the
// table:
//   start = max(end of the previous op (+ transfer where the op posts), ends of needs (+ transfer where marked))
inline double table_start(const ScheduleTable& table, std::uint32_t first_need, const ScheduleTable::Op& op,
                          double rank_end, double transfer, const std::vector<double>& ends) {
  double start = op.posts ? rank_end + transfer : rank_end;
  for (std::uint32_t n = first_need; n < op.needs_end; ++n) {
    const std::uint32_t need = table.needs[n];
    const double end = ends[need >> 1] + ((need & 1U) != 0 ? transfer : 0);
    start = end > start ? end : start;
  }
  return start;
}

// Runs all ops in the order of the table. seconds(i) returns the duration of op i; visit(i, start, end) is called for
// each op. Ops and transfers have the same unit of time.
template <class Seconds, class Visit>
void run_table(const ScheduleTable& table, double transfer, const Seconds& seconds, const Visit& visit) {
  std::vector<double> ends(table.ops.size()), rank_end(table.ranks.size());
  std::uint32_t need = 0;
  for (std::size_t i = 0; i < table.ops.size(); ++i) {
    const ScheduleTable::Op& op = table.ops[i];
    const double start = table_start(table, need, op, rank_end[op.rank], transfer, ends);
    need = op.needs_end;
    rank_end[op.rank] = ends[i] = start + seconds(i);
    visit(i, start, ends[i]);
  }
}

// A schedule of one's own: a CSV of the order of ops, as `plumbline schedule --csv` writes it.

inline constexpr std::string_view schedule_file_prefix = "file:";  // of a kind that is such a file

// Reads the file. It exists for the ranks, micro-batches and chunks that it lists alone; its messages are eager. Input
// errors name file and line: another header, fields that an op does not have, rows out of order, a stage on another
// rank than its placement gives it, chunks that are missing or there twice. Ops that wait for each other are
// infeasible.
Result<std::shared_ptr<const ScheduleKind>> read_schedule_file(const std::string& path);

}  // namespace plumbline::model
