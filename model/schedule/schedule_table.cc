#include "model/schedule/schedule_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

using Op = ScheduleTable::Op;
using Moment = ScheduleTable::Moment;
using RankBatches = std::vector<std::vector<std::vector<Transfer>>>;

// The order in which ranks append their ops is that of passes over all ranks: a rank that is woken by a lower one has
// its turn in the same pass, others in the next. Ranks that wait take no turn, so the cost grows with ops and not with
// ranks times passes.
class RankTurns {
 public:
  explicit RankTurns(std::size_t ranks) : waiting_(ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) now_.insert(now_.end(), rank);
  }

  // Returns the rank whose turn it is; nothing when every rank has ended or waits.
  std::optional<std::size_t> next() {
    if (now_.empty()) std::swap(now_, later_);
    if (now_.empty()) return std::nullopt;
    return now_.extract(now_.begin()).value();
  }

  // The rank takes no turn until op `op` of `producer` is appended.
  void wait(std::size_t rank, std::size_t producer, std::int64_t op) { waiting_[producer].emplace_back(op, rank); }

  // Gives turns to the ranks that wait for ops of `producer` up to `op`.
  void appended(std::size_t producer, std::int64_t op) {
    std::erase_if(waiting_[producer], [&](const auto& one) {
      if (one.first > op) return false;
      (one.second > producer ? now_ : later_).insert(one.second);
      return true;
    });
  }

 private:
  std::set<std::size_t> now_, later_;                                       // ranks of this pass and of the next
  std::vector<std::vector<std::pair<std::int64_t, std::size_t>>> waiting_;  // by producer: its op, and who waits for it
};

bool writes_gradients(const ScheduleOp& op) { return op.b_stage >= 0 && op.type != OpType::I; }

constexpr std::int64_t no_op = std::numeric_limits<std::int64_t>::max();

struct Place {  // position of an op on its rank; -1: the start; no_op: no op produces the message
  std::size_t rank = 0;
  std::int64_t op = no_op;
};

struct Wait {  // a wait until the op at `place` has ended
  Place place;
  Transfer message;
};

std::size_t cell_of(const std::vector<std::int32_t>& stages, std::int32_t stage) {
  return static_cast<std::size_t>(std::ranges::find(stages, stage) - stages.begin());
}

class Orderer {
 public:
  Orderer(const Schedule& schedule, PointToPoint mode, const RankBatches& batches)
      : schedule_(schedule),
        batched_(mode == PointToPoint::batched),
        batches_(batches),
        made_(schedule),
        sent_(schedule),
        received_(schedule),
        turns_(schedule.ranks.size()) {
    table_.outline = {schedule.kind,
                      schedule.shape,
                      schedule.stages,
                      schedule.directions,
                      schedule.placement,
                      schedule.parameter_copies,
                      mode,
                      {},
                      {}};
    auto stages = schedule.stages_by_rank();
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      ScheduleTable::Rank& entry = table_.ranks.emplace_back();
      entry.stages = std::move(stages[rank]);
      entry.ops.reserve(schedule.ranks[rank].size());
      begun_.emplace_back(entry.stages.size());
      last_.emplace_back(entry.stages.size(), -1);
      run_.push_back(-1);
    }
  }

  Result<ScheduleTable> run() {
    note_producers();
    classify();
    std::size_t left = 0;
    for (const auto& ops : schedule_.ranks) left += ops.size();
    while (const auto rank = turns_.next())
      while (done(*rank) < schedule_.ranks[*rank].size() && append(*rank)) --left;
    if (left > 0) return tl::make_unexpected(deadlock());
    return std::move(table_);
  }

 private:
  std::size_t done(std::size_t rank) const { return table_.ranks[rank].ops.size(); }
  bool ended(const Place& place) const { return place.op < static_cast<std::int64_t>(done(place.rank)); }

  void note_producers() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& ops = schedule_.ranks[rank];
      for (std::size_t k = 0; k < ops.size(); ++k) {
        const Place here{rank, static_cast<std::int64_t>(k)};
        if (ops[k].f_stage >= 0) made_.at(true, ops[k].f_dir, ops[k].f_stage, ops[k].f_mb) = here;
        if (ops[k].b_stage >= 0 && ops[k].type != OpType::W)
          made_.at(false, ops[k].b_dir, ops[k].b_stage, ops[k].b_mb) = here;
      }
      if (!batched_) continue;
      for (std::size_t k = 0; k < batches_[rank].size(); ++k)
        for (const Transfer& transfer : batches_[rank][k])
          (transfer.send ? sent_ : received_).at(transfer) = {rank, static_cast<std::int64_t>(k) - 1};
    }
  }

  void classify() {
    std::map<std::tuple<OpType, std::int32_t, std::int32_t, std::int32_t, std::int32_t>, std::uint32_t> known;
    for (const auto& ops : schedule_.ranks) {
      auto& here = class_of_.emplace_back();
      for (const ScheduleOp& op : ops) {
        const auto [entry, fresh] = known.try_emplace({op.type, op.f_stage, op.b_stage, op.f_dir, op.b_dir},
                                                      static_cast<std::uint32_t>(known.size()));
        if (fresh) table_.classes.push_back({op.type, op.f_stage, op.b_stage, op.f_dir, op.b_dir});
        here.push_back(entry->second);
      }
    }
  }

  void find_waits(std::size_t rank) {
    const std::size_t k = done(rank);
    const ScheduleOp& op = schedule_.ranks[rank][k];
    waits_.clear();
    if (batched_)
      for (const Transfer& transfer : batches_[rank][k])
        waits_.push_back({(transfer.send ? received_ : sent_).at(transfer), transfer});
    // With batches a message from another rank came with a batch that this rank has waited for.
    const auto need = [&](bool forward, std::int32_t direction, std::int32_t stage, std::int32_t mb) {
      const Place& maker = made_.at(forward, direction, stage, mb);
      if (!batched_ || maker.rank == rank)
        waits_.push_back({maker, {false, forward, schedule_.rank_of(direction, stage), direction, stage, mb}});
    };
    if (op.f_stage > 0) need(true, op.f_dir, op.f_stage - 1, op.f_mb);
    if (op.b_stage < 0) return;
    if (op.type == OpType::W) return need(false, op.b_dir, op.b_stage, op.b_mb);
    need(true, op.b_dir, op.b_stage, op.b_mb);
    if (op.b_stage + 1 < schedule_.stages) need(false, op.b_dir, op.b_stage + 1, op.b_mb);
  }

  // Appends the rank's next op; without the ops that it needs the rank waits for the first of them.
  bool append(std::size_t rank) {
    const std::size_t k = done(rank);
    find_waits(rank);
    needs_.clear();
    for (const auto& [place, message] : waits_) {
      if (!ended(place)) {
        if (place.op != no_op) turns_.wait(rank, place.rank, place.op);
        return false;
      }
      if (place.op >= 0 && place.rank != rank)
        needs_.push_back(2 * table_.ranks[place.rank].ops[static_cast<std::size_t>(place.op)] + 1);  // + 1: transfer
    }
    std::ranges::sort(needs_);
    table_.needs.insert(table_.needs.end(), needs_.begin(), std::ranges::unique(needs_).begin());
    const ScheduleOp& op = schedule_.ranks[rank][k];
    Op entry;
    entry.needs_end = static_cast<std::uint32_t>(table_.needs.size());
    entry.rank = static_cast<std::uint32_t>(rank);
    entry.slot_class = class_of_[rank][k];
    entry.type = op.type;
    entry.posts = batched_ && !batches_[rank][k].empty();
    if (op.f_stage >= 0) entry.first_forward = !std::exchange(begun_[rank][cell(rank, op.f_stage)], 1);
    entry.last_of_rank = k + 1 == schedule_.ranks[rank].size();
    const auto index = static_cast<std::uint32_t>(table_.ops.size());
    table_.ranks[rank].ops.push_back(index);
    if (writes_gradients(op)) {
      std::int64_t& run = run_[rank];
      if (run >= 0 && table_.classes[table_.ops[static_cast<std::size_t>(run)].slot_class].b_stage != op.b_stage)
        table_.ops[static_cast<std::size_t>(run)].last_of_run = true;
      last_[rank][cell(rank, op.b_stage)] = run = index;
    }
    table_.ops.push_back(entry);
    if (entry.last_of_rank) {
      for (const std::int64_t last : last_[rank])
        if (last >= 0) table_.ops[static_cast<std::size_t>(last)].last_gradient = true;
      if (run_[rank] >= 0) table_.ops[static_cast<std::size_t>(run_[rank])].last_of_run = true;
    }
    turns_.appended(rank, static_cast<std::int64_t>(k));
    return true;
  }

  std::size_t cell(std::size_t rank, std::int32_t stage) const { return cell_of(table_.ranks[rank].stages, stage); }

  Error deadlock() {
    constexpr std::size_t most = 8;
    std::vector<std::string> waits;
    for (std::size_t rank = 0; rank < table_.ranks.size() && waits.size() < most; ++rank) {
      const std::size_t next = done(rank);
      if (next == schedule_.ranks[rank].size()) continue;
      find_waits(rank);
      const auto wait = std::ranges::find_if(waits_, [&](const Wait& one) { return !ended(one.place); });
      const Transfer& message = wait->message;
      waits.push_back(fmt::format(
          "rank {} before op {} ({}) waits for rank {} over the {} of stage {}, direction {}, micro-batch {}", rank,
          next, to_string(schedule_.ranks[rank][next].type), message.peer, message.forward ? "activation" : "gradient",
          message.stage, message.direction, message.micro_batch));
    }
    Error error;
    error.kind = ErrorKind::infeasible;
    error.message = fmt::format("schedule {} deadlocks: {}", schedule_.kind, fmt::join(waits, "; "));
    return error;
  }

  const Schedule& schedule_;
  bool batched_;
  const RankBatches& batches_;                  // filled under batched transfers only
  MessageTable<Place> made_, sent_, received_;  // producer of each message; ops after which it was posted
  RankTurns turns_;
  std::vector<std::vector<std::uint32_t>> class_of_;
  ScheduleTable table_;
  std::vector<std::vector<char>> begun_;         // [rank][stage of the rank]
  std::vector<std::vector<std::int64_t>> last_;  // [rank][stage of the rank]: op of the table, -1: none yet
  std::vector<std::int64_t> run_;                // [rank]: the last op that writes gradients, likewise
  std::vector<Wait> waits_;
  std::vector<std::uint32_t> needs_;
};

// Collects the moments of one rank.
class Holder {
 public:
  Holder(const Schedule& schedule, const std::vector<std::vector<Transfer>>& batches, const ScheduleTable& table,
         std::size_t rank)
      : schedule_(schedule), batches_(batches), table_(table), rank_(rank) {
    now_.forwards.resize(stages().size());
    now_.weights.resize(stages().size());
  }

  std::vector<Moment> run() {
    const auto& ops = schedule_.ranks[rank_];
    walk_messages(schedule_, rank_, batches_, [&](std::size_t k, bool travel, std::int32_t messages) {
      now_.messages = messages;
      if (travel) return add(-1);
      if (k == ops.size()) return;
      add(table_.ops[table_.ranks[rank_].ops[k]].slot_class);
      hold(ops[k]);
    });
    return std::move(found_);
  }

 private:
  const std::vector<std::int32_t>& stages() const { return table_.ranks[rank_].stages; }

  void hold(const ScheduleOp& op) {
    if (op.f_stage >= 0) ++now_.forwards[cell_of(stages(), op.f_stage)];
    if (op.b_stage < 0) return;
    const std::size_t cell = cell_of(stages(), op.b_stage);
    --(op.type == OpType::W ? now_.weights : now_.forwards)[cell];
    if (op.type == OpType::I) ++now_.weights[cell];
  }

  static bool covers(const Moment& more, const Moment& less) {
    const auto all = [](const auto& a, const auto& b) { return std::ranges::equal(a, b, std::greater_equal{}); };
    return more.slot_class == less.slot_class && more.messages >= less.messages && all(more.forwards, less.forwards) &&
           all(more.weights, less.weights);
  }

  void add(std::int32_t slot_class) {
    now_.slot_class = slot_class;
    if (std::ranges::any_of(found_, [&](const Moment& moment) { return covers(moment, now_); })) return;
    std::erase_if(found_, [&](const Moment& moment) { return covers(now_, moment); });
    found_.push_back(now_);
  }

  const Schedule& schedule_;
  const std::vector<std::vector<Transfer>>& batches_;
  const ScheduleTable& table_;
  std::size_t rank_;
  Moment now_;
  std::vector<Moment> found_;
};

}  // namespace

Result<ScheduleTable> order_ops(const Schedule& schedule, PointToPoint mode) {
  RankBatches batches;
  if (mode == PointToPoint::batched) batches = point_to_point_batches(schedule, mode);
  return Orderer(schedule, mode, batches).run();
}

Result<ScheduleTable> make_schedule_table(const ScheduleKind& kind, const ScheduleShape& shape) {
  const Schedule schedule = kind.build(shape);
  const RankBatches batches = point_to_point_batches(schedule);
  auto table = TRY(Orderer(schedule, schedule.point_to_point, batches).run());
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    table.ranks[rank].moments = Holder(schedule, batches[rank], table, rank).run();
  return table;
}

}  // namespace plumbline::model
