#include "model/schedule/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// What stage `stage` made of a micro-batch: its activation or its gradient.
struct Message {
  bool forward = true;
  std::int32_t direction = 0, stage = 0, micro_batch = 0;
};

// One time per message, unknown at first.
class MessageTimes {
 public:
  explicit MessageTimes(const Schedule& schedule)
      : stages_(static_cast<std::size_t>(schedule.stages)),
        micro_batches_(
            static_cast<std::size_t>((schedule.shape.micro_batches + schedule.directions - 1) / schedule.directions)),
        times_(2 * static_cast<std::size_t>(schedule.directions) * stages_ * micro_batches_, unknown) {}

  double& operator[](const Message& message) {
    const std::size_t side = 2 * static_cast<std::size_t>(message.direction) + (message.forward ? 1 : 0);
    return times_[(side * stages_ + static_cast<std::size_t>(message.stage)) * micro_batches_ +
                  static_cast<std::size_t>(message.micro_batch)];
  }

 private:
  std::size_t stages_, micro_batches_;
  std::vector<double> times_;
};

std::vector<Message> needs(const Schedule& schedule, const ScheduleOp& op) {
  std::vector<Message> messages;
  if (op.f_stage > 0) messages.push_back({true, op.f_dir, op.f_stage - 1, op.f_mb});
  if (op.type == OpType::W) {
    messages.push_back({false, op.b_dir, op.b_stage, op.b_mb});
  } else if (op.b_stage >= 0) {
    messages.push_back({true, op.b_dir, op.b_stage, op.b_mb});
    if (op.b_stage + 1 < schedule.stages) messages.push_back({false, op.b_dir, op.b_stage + 1, op.b_mb});
  }
  return messages;
}

std::string describe(const Message& message) {
  return fmt::format("the {} of stage {}, direction {}, micro-batch {}", message.forward ? "activation" : "gradient",
                     message.stage, message.direction, message.micro_batch);
}

struct Blocker {
  Message message;
  std::int32_t peer = 0;
};

class Run {
 public:
  Run(const Schedule& schedule, const ChunkCosts& costs, PointToPoint mode)
      : schedule_(schedule),
        costs_(costs),
        batched_(mode == PointToPoint::batched),
        batches_(batched_ ? point_to_point_batches(schedule, mode) : decltype(batches_){}),
        ended_(schedule),
        sent_(schedule),
        received_(schedule),
        clock_(schedule.ranks.size(), 0.0),
        start_(schedule.ranks.size()),
        posted_(schedule.ranks.size(), 0) {}

  Result<ScheduleEvaluation> operator()() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < clock_.size(); ++rank) moved = advance(rank) || moved;
    }
    for (std::size_t rank = 0; rank < clock_.size(); ++rank) {
      if (start_[rank].size() < schedule_.ranks[rank].size()) return tl::make_unexpected(deadlock());
    }
    return collect();
  }

 private:
  // Runs ops of one rank until it blocks; whether anything happened.
  bool advance(std::size_t rank) {
    bool moved = post(rank);
    const auto& ops = schedule_.ranks[rank];
    while (start_[rank].size() < ops.size()) {
      const tl::expected<double, Blocker> begin = ready(rank);
      if (!begin) break;
      const ScheduleOp& op = ops[start_[rank].size()];
      start_[rank].push_back(*begin);
      clock_[rank] = *begin + costs_.of(op);
      if (op.f_stage >= 0) ended_[{true, op.f_dir, op.f_stage, op.f_mb}] = clock_[rank];
      if (op.b_stage >= 0 && op.type != OpType::W) ended_[{false, op.b_dir, op.b_stage, op.b_mb}] = clock_[rank];
      post(rank);
      moved = true;
    }
    return moved;
  }

  // Posts the batch in front of the next op, once; the entry after the last op holds the remaining sends.
  bool post(std::size_t rank) {
    const std::size_t next = start_[rank].size();
    if (!batched_ || posted_[rank] > next) return false;
    for (const Hop& hop : batches_[rank][next]) (hop.send ? sent_ : received_)[message_of(hop)] = clock_[rank];
    posted_[rank] = next + 1;
    return true;
  }

  // When the next op of the rank can begin, or what it waits for.
  tl::expected<double, Blocker> ready(std::size_t rank) {
    const std::size_t next = start_[rank].size();
    double begin = clock_[rank];
    if (batched_) {
      for (const Hop& hop : batches_[rank][next]) {
        const double other = (hop.send ? received_ : sent_)[message_of(hop)];
        if (std::isnan(other)) return tl::make_unexpected(Blocker{message_of(hop), hop.peer});
        begin = std::max(begin, std::max(other, clock_[rank]) + costs_.p2p());
      }
    }
    for (const Message& message : needs(schedule_, schedule_.ranks[rank][next])) {
      const std::int32_t producer = schedule_.rank_of(message.direction, message.stage);
      const double end = ended_[message];
      if (std::isnan(end)) return tl::make_unexpected(Blocker{message, producer});
      const bool hop = !batched_ && static_cast<std::size_t>(producer) != rank;
      begin = std::max(begin, hop ? end + costs_.p2p() : end);
    }
    return begin;
  }

  static Message message_of(const Hop& hop) { return {hop.forward, hop.direction, hop.stage, hop.micro_batch}; }

  Error deadlock() {
    constexpr std::size_t most = 8;
    std::vector<std::string> waits;
    for (std::size_t rank = 0; rank < clock_.size() && waits.size() < most; ++rank) {
      const std::size_t next = start_[rank].size();
      if (next == schedule_.ranks[rank].size()) continue;
      const Blocker blocker = ready(rank).error();
      waits.push_back(fmt::format("rank {} before op {} ({}) waits for rank {} over {}", rank, next,
                                  to_string(schedule_.ranks[rank][next].type), blocker.peer,
                                  describe(blocker.message)));
    }
    Error error;
    error.kind = ErrorKind::infeasible;
    error.message = fmt::format("schedule {} deadlocks: {}", schedule_.kind, fmt::join(waits, "; "));
    return error;
  }

  ScheduleEvaluation collect();

  const Schedule& schedule_;
  const ChunkCosts& costs_;
  bool batched_;
  std::vector<std::vector<std::vector<Hop>>> batches_;
  MessageTimes ended_, sent_, received_;  // producer's end; when the send, the receive was posted
  std::vector<double> clock_;             // end of the last op, per rank
  std::vector<std::vector<double>> start_;
  std::vector<std::size_t> posted_;  // batches posted so far
};

// A forward counts from its op on, a backward frees at its B, or at its W where split; the forward of a pair
// comes before its backward frees.
std::int32_t peak_activations(const std::vector<ScheduleOp>& ops) {
  std::int32_t held = 0, peak = 0;
  for (const ScheduleOp& op : ops) {
    if (op.f_stage >= 0) peak = std::max(peak, ++held);
    if (op.b_stage >= 0 && op.type != OpType::I) --held;
  }
  return peak;
}

ScheduleEvaluation Run::collect() {
  ScheduleEvaluation result;
  result.makespan = clock_.empty() ? 0 : *std::max_element(clock_.begin(), clock_.end());
  for (std::size_t rank = 0; rank < clock_.size(); ++rank) {
    double busy = 0;
    for (const ScheduleOp& op : schedule_.ranks[rank]) busy += costs_.of(op);
    result.busy.push_back(busy);
    result.idle.push_back(result.makespan - busy);
    result.window.push_back(start_[rank].empty() ? 0 : clock_[rank] - start_[rank].front());
    result.peak_activations.push_back(peak_activations(schedule_.ranks[rank]));
  }
  result.start = std::move(start_);
  return result;
}

}  // namespace

Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ScheduleCosts& costs, PointToPoint mode) {
  return evaluate(schedule, UniformCosts(costs), mode);
}

Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ChunkCosts& costs, PointToPoint mode) {
  return Run(schedule, costs, mode)();
}

}  // namespace plumbline::model
