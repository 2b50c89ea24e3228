// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473): rank r holds the stages r, P+r, 2P+r, ... of v P stages. v
// chunks per rank shrink the bubble to 1/v of 1F1B's, with more activations and v times the transfers.
#include <fmt/format.h>

#include <algorithm>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

std::int32_t micro_batch_group(const ScheduleShape& shape) {
  return shape.micro_batch_group > 0 ? shape.micro_batch_group : shape.ranks;
}

// Calls add(chunk, micro_batch) in the order of the forwards.
template <class Add>
void for_each_chunk(const ScheduleShape& shape, Add add) {
  const std::int32_t group = micro_batch_group(shape);
  for (std::int32_t first = 0, end = 0; first < shape.micro_batches; first = end) {
    end = first + std::min(group, shape.micro_batches - first);
    for (std::int32_t chunk = 0; chunk < shape.virtual_stages; ++chunk)
      for (std::int32_t mb = first; mb < end; ++mb) add(chunk, mb);
  }
}

std::vector<ScheduleOp> forwards_of(const ScheduleShape& shape, std::int32_t rank) {
  std::vector<ScheduleOp> ops;
  for_each_chunk(shape, [&](std::int32_t chunk, std::int32_t mb) {
    ops.push_back(forward_op(0, chunk * shape.ranks + rank, mb));
  });
  return ops;
}

std::vector<ScheduleOp> backwards_of(const ScheduleShape& shape, std::int32_t rank) {
  std::vector<ScheduleOp> ops;
  for_each_chunk(shape, [&](std::int32_t chunk, std::int32_t mb) {
    ops.push_back(backward_op(OpType::B, 0, (shape.virtual_stages - 1 - chunk) * shape.ranks + rank, mb));
  });
  return ops;
}

// Returns the number of forwards before the first backward, without the one that starts the steady state: the
// micro-batches on their way to the last rank and back, and (v-1) chunks of a group. At most v M.
std::int32_t warm_up_of(const ScheduleShape& shape, std::int32_t rank) {
  const std::int64_t ahead =
      2 * std::int64_t{shape.ranks - 1 - rank} + std::int64_t{shape.virtual_stages - 1} * micro_batch_group(shape);
  return static_cast<std::int32_t>(std::min(ahead, std::int64_t{shape.virtual_stages} * shape.micro_batches));
}

class Interleaved : public ScheduleKind {
 public:
  std::string_view name() const override { return "interleaved"; }

  // These are Megatron's conditions. With several chunks a group must last until its first micro-batch is back at rank
  // 0 for the next chunk; with a shorter group the ranks can deadlock.
  Result<void> check(const ScheduleShape& shape) const override {
    TRY(check_counts(shape));
    if (shape.micro_batch_group < 0)
      return infeasible(
          "micro_batch_group",
          fmt::format("a micro-batch group has at least one micro-batch, not {}", shape.micro_batch_group),
          "leave it out for a group of as many as ranks");
    const std::int32_t M = shape.micro_batches, P = shape.ranks, group = micro_batch_group(shape), rest = M % group;
    if (shape.virtual_stages == 1 || group >= M) return {};
    std::int32_t possible = std::max(group, std::min(P, M));  // M itself always fits
    while (M % possible != 0 && M % possible < P) ++possible;
    if (group < P)
      return infeasible(
          "micro_batch_group",
          fmt::format("{} on {} ranks needs groups of at least {} micro-batches, not {}", name(), P, P, group),
          fmt::format("use a micro-batch group of {}", possible));
    if (rest == 0 || rest >= P) return {};
    return infeasible(
        "micro_batches",
        fmt::format("{} on {} ranks in groups of {} leaves {} of {} micro-batches for the last group, fewer than ranks",
                    name(), P, group, rest, M),
        fmt::format("use {} or {} micro-batches, or a micro-batch group of {}", M - rest, M - rest + group, possible));
  }

  Schedule outline(const ScheduleShape& shape) const override {
    Schedule schedule;
    schedule.kind = name();
    schedule.shape = shape;
    schedule.stages = shape.ranks * shape.virtual_stages;
    return schedule;
  }

  // Each rank runs warm_up() of its v M forwards, then in turn a forward and a backward; with pairs() these two run as
  // one overlapped pair. Forwards run by groups of micro-batches: chunk 0 of the whole group, then chunk 1, and so on.
  // Backwards use the same groups, last chunk first.
  Schedule build(const ScheduleShape& shape) const override {
    Schedule schedule = outline(shape);
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      const std::vector<ScheduleOp> forwards = forwards_of(shape, rank);
      auto forward = forwards.begin() + warm_up(shape, rank);
      std::vector<ScheduleOp>& ops = schedule.ranks.emplace_back(forwards.begin(), forward);
      for (ScheduleOp backward : backwards_of(shape, rank)) {
        if (forward != forwards.end() && pairs()) {
          backward.type = OpType::FB;
          backward.f_dir = forward->f_dir;
          backward.f_stage = forward->f_stage;
          backward.f_mb = forward->f_mb;
          ++forward;
        } else if (forward != forwards.end()) {
          ops.push_back(*forward++);
        }
        ops.push_back(backward);
      }
    }
    post_receives_ahead(schedule);
    return schedule;
  }

  // With whole groups of P the last rank starts after P-1 forwards and never waits; the last gradient then takes P-1
  // backwards to rank 0. No exact formula is known with transfer times.
  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    const double P = shape.ranks, chunks = static_cast<double>(shape.virtual_stages) * shape.micro_batches;
    const double work = chunks * (costs.F + costs.B);
    if (shape.ranks == 1) return work;
    if (costs.p2p != 0 || shape.micro_batches % shape.ranks != 0) return std::nullopt;
    if (shape.virtual_stages > 1 && micro_batch_group(shape) != shape.ranks) return std::nullopt;
    return work + (P - 1) * (costs.F + costs.B);
  }

  // In a pair the forward's activation is counted before the backward frees one.
  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t rank) const override {
    return std::min(warm_up(shape, rank) + 1, shape.virtual_stages * shape.micro_batches);
  }

 protected:
  virtual std::int32_t warm_up(const ScheduleShape& shape, std::int32_t rank) const { return warm_up_of(shape, rank); }
  virtual bool pairs() const { return false; }
};

// Interleaved 1F1B with overlapped expert all-to-all, Megatron's counterpart of DualPipe. One more warm-up forward
// makes the forward and the backward of a pair independent, so that each hides the other's all-to-all.
class InterleavedOverlap final : public Interleaved {
 public:
  std::string_view name() const override { return "interleaved-overlap"; }

  std::optional<double> exact_makespan(const ScheduleShape& shape, const ScheduleCosts& costs) const override {
    if (shape.ranks > 1 || shape.virtual_stages > 1) return std::nullopt;
    return costs.F + (shape.micro_batches - 1) * costs.FB + costs.B;  // one rank: a forward, pairs, a backward
  }

 protected:
  std::int32_t warm_up(const ScheduleShape& shape, std::int32_t rank) const override {
    return std::min(warm_up_of(shape, rank) + 1, shape.virtual_stages * shape.micro_batches);
  }
  bool pairs() const override { return true; }
};

}  // namespace

const ScheduleKind& interleaved() { return the_one<Interleaved>(); }
const ScheduleKind& interleaved_overlap() { return the_one<InterleavedOverlap>(); }

}  // namespace plumbline::model
