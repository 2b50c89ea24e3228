// A pipeline schedule lists for every rank the chunks it computes, in order and without times. Notation: P ranks, M
// micro-batches, F forward, B full backward = I (input gradient) + W (weight gradient), FB a forward and a full
// backward of two micro-batches run as one overlapped pair.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

enum class OpType : std::uint8_t { F, B, I, W, FB };
std::string_view to_string(OpType type);

// F sets the f_ fields, B/I/W the b_ fields, FB both; unused fields are -1. Placement gives the rank of each stage.
// Micro-batches count from 0 per direction.
struct ScheduleOp {
  OpType type = OpType::F;
  std::int32_t f_dir = -1, f_stage = -1, f_mb = -1;
  std::int32_t b_dir = -1, b_stage = -1, b_mb = -1;
  bool operator==(const ScheduleOp&) const = default;
};

struct ScheduleShape {
  std::int32_t ranks = 1;
  std::int32_t micro_batches = 1;      // sum of both directions
  std::int32_t virtual_stages = 1;     // chunks per rank
  std::int32_t micro_batch_group = 0;  // 0: the schedule's default
};

// The rank of stage s. looped: rank s % P. mirrored: the same for direction 0, rank P-1-s for direction 1. vee: rank s
// up to P-1, then back on rank 2P-1-s.
enum class Placement : std::uint8_t { looped, mirrored, vee };

// eager: a message leaves when its producer ends and never blocks. batched: sends are posted just before the next op
// together with that op's receives, and the rank waits for the whole batch.
enum class PointToPoint : std::uint8_t { eager, batched };

// A message of op `op` that a batched schedule posts outside its default batch (receives with op, sends with op + 1).
// Receives can only be posted earlier, sends later.
struct Posting {
  std::int32_t op = 0;
  bool send = false;
  bool forward = true;     // the activation, else the gradient
  std::int32_t batch = 0;  // posted just before op `batch`
};

struct Schedule {
  std::string kind;
  ScheduleShape shape;
  std::int32_t stages = 1;      // stages of one direction
  std::int32_t directions = 1;  // 2: M counts both together
  Placement placement = Placement::looped;
  std::int32_t parameter_copies = 1;  // how many ranks hold the parameters of one stage
  PointToPoint point_to_point = PointToPoint::eager;
  std::vector<std::vector<ScheduleOp>> ranks;  // program order
  std::vector<std::vector<Posting>> postings;  // per rank the messages outside their default batch; may be empty

  std::int32_t rank_of(std::int32_t direction, std::int32_t stage) const;
  std::vector<std::vector<std::int32_t>> stages_by_rank() const;  // by direction, then by stage
  std::int32_t micro_batches_per_direction() const;               // of its programs
};

// Costs per listed op, in any one unit. B = I + W is not enforced.
struct ScheduleCosts {
  double F = 1, B = 2, I = 1, W = 1, FB = 3, p2p = 0;
  double of(OpType type) const;
};

// The interface of a schedule. To add one, derive from it in a .cc of kinds/ and add a line to kinds/kinds.cc.
class ScheduleKind {
 public:
  virtual ~ScheduleKind() = default;
  virtual std::string_view name() const = 0;
  // Fails as infeasible, with the reason, when the schedule does not exist for this shape.
  virtual Result<void> check(const ScheduleShape& shape) const = 0;
  // Returns the schedule without programs: placement of stages and mode of messages, at little cost. Requires
  // check(shape).
  virtual Schedule outline(const ScheduleShape& shape) const = 0;
  virtual Schedule build(const ScheduleShape& shape) const = 0;  // requires check(shape)
  // Returns the makespan with uniform stages where an exact formula is known for these costs, else nullopt.
  virtual std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const = 0;
  // Returns the largest number of chunks (F counted until its B, or W where split) that `rank` may hold.
  virtual std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t rank) const = 0;
};

std::span<const ScheduleKind* const> schedule_kinds();
Result<const ScheduleKind*> find_schedule(std::string_view name);  // unknown: input error, nearest name

// The messages that a rank sends and receives around each op of a schedule: one activation (forward) or one gradient
// (backward) between the ranks of adjacent stages. Stages on the same rank need no message.

struct Transfer {
  bool send = false;      // else receive
  bool forward = true;    // activation of stage -> stage+1, else gradient of stage -> stage-1
  std::int32_t peer = 0;  // the other rank
  std::int32_t direction = 0;
  std::int32_t stage = 0;  // the stage that produced the message
  std::int32_t micro_batch = 0;
  bool operator==(const Transfer&) const = default;
};

// A value of each message of a schedule, by index instead of a search: there are millions of look-ups.
template <class Value>
class MessageTable {
 public:
  explicit MessageTable(const Schedule& schedule)
      : directions_(schedule.directions),
        stages_(schedule.stages),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches_per_direction())),
        values_(2 * static_cast<std::size_t>(directions_ * stages_) * micro_batches_) {}

  Value& at(bool forward, std::int32_t direction, std::int32_t stage, std::int32_t micro_batch) {
    const std::int32_t line = ((forward ? 1 : 0) * directions_ + direction) * stages_ + stage;
    return values_[static_cast<std::size_t>(line) * micro_batches_ + static_cast<std::size_t>(micro_batch)];
  }
  Value& at(const Transfer& transfer) {
    return at(transfer.forward, transfer.direction, transfer.stage, transfer.micro_batch);
  }

 private:
  std::int32_t directions_, stages_;
  std::size_t micro_batches_;
  std::vector<Value> values_;
};

// Returns batches[rank][k]: the messages that the rank posts and waits for just before op k; the entry after the last
// op holds the remaining sends. In an eager schedule the receives are those of op k. Its sends are listed with the next
// op too, but do not block: the executor posts them when their producer ends. Each eager message has its own tag. In a
// batched schedule Schedule::postings moves single messages to other batches. Both ranks of a pair list their messages
// in the same order if the schedule is made for batches.
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule, PointToPoint mode);
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule);  // its mode

// The messages that a rank holds over its program, including those between two stages of the rank.

// Returns the number of messages that an op consumes (`in`) or produces.
inline std::int32_t messages_of(const ScheduleOp& op, std::int32_t stages, bool in) {
  const auto there = [&](std::int32_t stage) { return stage >= 0 && stage < stages ? 1 : 0; };
  std::int32_t messages = 0;
  if (op.type == OpType::F || op.type == OpType::FB) messages += there(in ? op.f_stage - 1 : op.f_stage + 1);
  if (op.type != OpType::F && op.type != OpType::W) messages += there(in ? op.b_stage + 1 : op.b_stage - 1);
  return messages;
}

// Calls at(k, travel, messages) while the messages before op k travel (travel = true, where there are any) and while op
// k runs; the last call is for the end of the step, with k the number of ops. A receive buffer exists from the batch
// that posts the receive until its op begins, when it becomes a tensor of the slot. A send buffer exists from the end
// of its op until its batch is over or, under eager transfers (which block no rank), until the next op is over. A
// message between stages on one rank keeps its tensor until the next stage takes it. `batches` are the rank's, from
// point_to_point_batches.
template <class At>
void walk_messages(const Schedule& schedule, std::size_t rank, const std::vector<std::vector<Transfer>>& batches,
                   const At& at) {
  const bool eager = schedule.point_to_point == PointToPoint::eager;
  const auto& ops = schedule.ranks[rank];
  std::int32_t messages = 0;
  for (std::size_t k = 0; k <= ops.size(); ++k) {
    const auto sent = static_cast<std::int32_t>(std::ranges::count(batches[k], true, &Transfer::send));
    messages += static_cast<std::int32_t>(batches[k].size()) - sent;
    if (!batches[k].empty()) at(k, true, messages);
    if (!eager || k == ops.size()) messages -= sent;
    if (k < ops.size()) messages -= messages_of(ops[k], schedule.stages, true);
    at(k, false, messages);
    if (k == ops.size()) return;
    messages += messages_of(ops[k], schedule.stages, false);
    if (eager) messages -= sent;
  }
}

}  // namespace plumbline::model
