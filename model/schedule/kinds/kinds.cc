#include "model/schedule/kinds/kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {
namespace {

// The limit on forward chunks of a schedule: far above any real step, and every count fits 32 bits. A predicted step
// holds a kilobyte for each where every rank sends and receives.
constexpr std::int64_t most_chunks = 6'000'000;

}  // namespace

Result<void> check_counts(const ScheduleShape& shape) {
  if (shape.ranks < 1)
    return infeasible("ranks", fmt::format("a pipeline needs at least one rank, not {}", shape.ranks));
  if (shape.micro_batches < 1)
    return infeasible("micro_batches",
                      fmt::format("a step needs at least one micro-batch, not {}", shape.micro_batches));
  if (shape.virtual_stages < 1)
    return infeasible("virtual_stages", fmt::format("a rank holds at least one chunk, not {}", shape.virtual_stages));
  const std::int64_t of_rank = most_chunks / shape.virtual_stages, most = of_rank / shape.ranks;
  if (shape.micro_batches > most)
    return infeasible("micro_batches",
                      fmt::format("{} ranks with {} micro-batches are more than a schedule of {} chunks holds",
                                  shape.ranks, shape.micro_batches, most_chunks),
                      most > 0      ? fmt::format("use at most {} micro-batches", most)
                      : of_rank > 0 ? fmt::format("use at most {} ranks", of_rank)
                                    : fmt::format("use at most {} virtual stages", most_chunks / shape.ranks));
  return {};
}

Result<void> check_ungrouped(std::string_view name, const ScheduleShape& shape) {
  if (shape.micro_batch_group != 0)
    return infeasible("micro_batch_group", fmt::format("{} does not group its micro-batches", name),
                      "leave the micro-batch group out");
  return {};
}

Result<void> check_vee(std::string_view name, const ScheduleShape& shape) {
  TRY(check_counts(shape));
  if (shape.virtual_stages > 2)
    return infeasible(
        "virtual_stages",
        fmt::format("{} always holds 2 chunks per rank, but {} were asked for", name, shape.virtual_stages),
        "leave virtual stages out or set them to 2");
  return check_ungrouped(name, shape);
}

Result<void> check_single_chunk(std::string_view name, const ScheduleShape& shape) {
  TRY(check_counts(shape));
  if (shape.virtual_stages != 1)
    return infeasible("virtual_stages",
                      fmt::format("{} has no virtual stages, but {} were asked for", name, shape.virtual_stages),
                      "leave virtual stages at 1");
  return check_ungrouped(name, shape);
}

Schedule single_chunk_outline(std::string_view name, const ScheduleShape& shape) {
  Schedule schedule;
  schedule.kind = name;
  schedule.shape = shape;
  schedule.stages = shape.ranks;
  return schedule;
}

Schedule SingleChunkKind::outline(const ScheduleShape& shape) const { return single_chunk_outline(name(), shape); }

std::optional<double> makespan_without_waits(const ScheduleShape& shape, const ScheduleCosts& costs, double chunks) {
  const double P = shape.ranks, M = shape.micro_batches;
  const double work = chunks * M * (costs.F + costs.I + costs.W);
  if (P == 1) return work;
  const double slack = 1e-12 * costs.F;  // tolerance for rounding in the costs
  const bool equal = std::abs(costs.F - costs.I) <= slack && std::abs(costs.F - costs.W) <= slack;
  if (costs.p2p != 0 || !equal || M < 2 * P) return std::nullopt;
  return work + (P - 1) * costs.F;
}

Schedule vee_outline(std::string_view name, const ScheduleShape& shape) {
  Schedule schedule = single_chunk_outline(name, shape);
  schedule.stages = 2 * shape.ranks;
  schedule.placement = Placement::vee;
  return schedule;
}

ScheduleOp forward_op(std::int32_t direction, std::int32_t stage, std::int32_t micro_batch) {
  ScheduleOp op;
  op.type = OpType::F;
  op.f_dir = direction;
  op.f_stage = stage;
  op.f_mb = micro_batch;
  return op;
}

ScheduleOp backward_op(OpType type, std::int32_t direction, std::int32_t stage, std::int32_t micro_batch) {
  assert(type == OpType::B || type == OpType::I || type == OpType::W);
  ScheduleOp op;
  op.type = type;
  op.b_dir = direction;
  op.b_stage = stage;
  op.b_mb = micro_batch;
  return op;
}

void post_receives_ahead(Schedule& schedule) {
  const auto transfers = point_to_point_batches(schedule, PointToPoint::eager);
  const Result<ScheduleEvaluation> run = evaluate(schedule, ScheduleCosts{});
  assert(run);
  // In an eager schedule the receives of batch k are those of op k, and the sends those of op k-1.
  MessageTable<double> ends(schedule);
  for (std::size_t rank = 0; rank < transfers.size(); ++rank)
    for (std::size_t k = 1; k < transfers[rank].size(); ++k)
      for (const Transfer& transfer : transfers[rank][k])
        if (transfer.send)
          ends.at(transfer) = run->start[rank][k - 1] + ScheduleCosts{}.of(schedule.ranks[rank][k - 1].type);
  schedule.postings.assign(transfers.size(), {});
  for (std::size_t rank = 0; rank < transfers.size(); ++rank) {
    const std::vector<double>& start = run->start[rank];
    for (std::size_t k = 0; k < transfers[rank].size(); ++k)
      for (const Transfer& transfer : transfers[rank][k]) {
        if (transfer.send) continue;
        const auto batch = std::lower_bound(start.begin(), start.end(), ends.at(transfer)) - start.begin();
        if (static_cast<std::size_t>(batch) == k) continue;
        schedule.postings[rank].push_back(
            {static_cast<std::int32_t>(k), false, transfer.forward, static_cast<std::int32_t>(batch)});
      }
  }
}

std::span<const ScheduleKind* const> schedule_kinds() {
  static const ScheduleKind* const kinds[] = {
      &gpipe(),       &one_forward_one_backward(),
      &interleaved(), &interleaved_overlap(),
      &zb_h1(),       &zb_h2(),
      &zb_v(),        &dualpipe(),
      &dualpipev(),
  };
  return kinds;
}

Result<const ScheduleKind*> find_schedule(std::string_view name) {
  std::vector<std::string> names;
  for (const ScheduleKind* kind : schedule_kinds()) {
    if (kind->name() == name) return kind;
    names.emplace_back(kind->name());
  }
  return wrong_input("schedule.kind", fmt::format("unknown schedule '{}'", name),
                     did_you_mean(name, names, fmt::format("known schedules: {}", fmt::join(names, ", "))));
}

}  // namespace plumbline::model
