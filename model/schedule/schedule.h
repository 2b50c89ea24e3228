// A pipeline schedule lists for every rank the chunks it computes, in order and without times. Notation: P ranks, M
// micro-batches, F forward, B full backward = I (input gradient) + W (weight gradient), FB a forward and a full
// backward of two micro-batches run as one overlapped pair.
#pragma once

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

// A message of op `op` that a batched schedule posts outside its default batch (receives with op, sends with op + 1;
// transfers.h). Receives can only be posted earlier, sends later.
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

}  // namespace plumbline::model
