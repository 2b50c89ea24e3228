#include "model/schedule/schedule_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/schedule/evaluate.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

using Op = ScheduleTable::Op;
using Moment = ScheduleTable::Moment;
bool writes_gradients(const ScheduleOp& op) { return op.b_stage >= 0 && op.type != OpType::I; }

struct Place {  // of an op: rank and position; position -1: the start
  std::size_t rank = 0;
  std::int64_t op = -1;
};

// A place for each message of a schedule, found by counting: there are millions of lookups.
class MessagePlaces {
 public:
  explicit MessagePlaces(const Schedule& schedule) : directions_(schedule.directions), stages_(schedule.stages) {
    std::int32_t last = -1;
    for (const auto& ops : schedule.ranks)
      for (const ScheduleOp& op : ops) last = std::max({last, op.f_mb, op.b_mb});
    micro_batches_ = static_cast<std::size_t>(last + 1);
    places_.resize(2 * static_cast<std::size_t>(directions_ * stages_) * micro_batches_);
  }

  Place& at(bool forward, std::int32_t direction, std::int32_t stage, std::int32_t micro_batch) {
    const std::int32_t line = ((forward ? 1 : 0) * directions_ + direction) * stages_ + stage;
    return places_[static_cast<std::size_t>(line) * micro_batches_ + static_cast<std::size_t>(micro_batch)];
  }
  Place& at(const Hop& hop) { return at(hop.forward, hop.direction, hop.stage, hop.micro_batch); }

 private:
  std::int32_t directions_, stages_;
  std::size_t micro_batches_ = 0;
  std::vector<Place> places_;
};

class Orderer {
 public:
  explicit Orderer(const Schedule& schedule)
      : schedule_(schedule),
        batched_(schedule.point_to_point == PointToPoint::batched),
        batches_(point_to_point_batches(schedule)),
        made_(schedule),
        sent_(schedule),
        received_(schedule),
        index_(schedule.ranks.size()),
        begun_(schedule.ranks.size(), std::vector<bool>(static_cast<std::size_t>(schedule.stages))),
        last_(schedule.ranks.size(), std::vector<std::int64_t>(static_cast<std::size_t>(schedule.stages), -1)) {}

  // False when ranks wait in a circle.
  bool run(ScheduleTable& table) {
    note_producers();
    classify(table);
    std::size_t left = 0;
    for (const auto& ops : schedule_.ranks) left += ops.size();
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < index_.size(); ++rank)
        while (index_[rank].size() < schedule_.ranks[rank].size() && append(rank, table)) {
          moved = true;
          --left;
        }
    }
    return left == 0;
  }

  // [rank][op]: where in the table.
  std::vector<std::vector<std::uint32_t>> take_ops() { return std::move(index_); }

 private:
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
        for (const Hop& hop : batches_[rank][k])
          (hop.send ? sent_ : received_).at(hop) = {rank, static_cast<std::int64_t>(k) - 1};
    }
  }

  void classify(ScheduleTable& table) {
    std::map<std::tuple<OpType, std::int32_t, std::int32_t>, std::uint16_t> known;
    for (const auto& ops : schedule_.ranks) {
      auto& here = class_of_.emplace_back();
      for (const ScheduleOp& op : ops) {
        const auto [entry, fresh] =
            known.try_emplace({op.type, op.f_stage, op.b_stage}, static_cast<std::uint16_t>(known.size()));
        if (fresh) table.classes.push_back({op.type, op.f_stage, op.b_stage});
        here.push_back(entry->second);
      }
    }
  }

  // What the op has to wait for, ops of its own rank left out.
  void find_waits(std::size_t rank, std::size_t k) {
    const ScheduleOp& op = schedule_.ranks[rank][k];
    waits_.clear();
    if (batched_)
      for (const Hop& hop : batches_[rank][k]) waits_.push_back((hop.send ? received_ : sent_).at(hop));
    // Under batches a message from another rank came with one that the rank has waited for.
    const auto need = [&](bool forward, std::int32_t direction, std::int32_t stage, std::int32_t mb) {
      const Place& maker = made_.at(forward, direction, stage, mb);
      if (!batched_ || maker.rank == rank) waits_.push_back(maker);
    };
    if (op.f_stage > 0) need(true, op.f_dir, op.f_stage - 1, op.f_mb);
    if (op.type != OpType::W && op.b_stage >= 0 && op.b_stage + 1 < schedule_.stages)
      need(false, op.b_dir, op.b_stage + 1, op.b_mb);
  }

  bool append(std::size_t rank, ScheduleTable& table) {
    const std::size_t k = index_[rank].size();
    find_waits(rank, k);
    needs_.clear();
    for (const Place& place : waits_) {
      if (place.op >= 0 && static_cast<std::size_t>(place.op) >= index_[place.rank].size()) return false;
      if (place.op >= 0 && place.rank != rank)
        needs_.push_back(2 * index_[place.rank][static_cast<std::size_t>(place.op)] + 1);  // over a hop
    }
    std::ranges::sort(needs_);
    table.needs.insert(table.needs.end(), needs_.begin(), std::ranges::unique(needs_).begin());
    const ScheduleOp& op = schedule_.ranks[rank][k];
    Op entry;
    entry.needs_end = static_cast<std::uint32_t>(table.needs.size());
    entry.rank = static_cast<std::uint16_t>(rank);
    entry.slot_class = class_of_[rank][k];
    entry.type = op.type;
    entry.posts = batched_ && !batches_[rank][k].empty();
    if (op.f_stage >= 0) entry.first_forward = begin(rank, op.f_stage);
    entry.last_of_rank = k + 1 == schedule_.ranks[rank].size();
    index_[rank].push_back(static_cast<std::uint32_t>(table.ops.size()));
    if (writes_gradients(op)) last_[rank][static_cast<std::size_t>(op.b_stage)] = index_[rank].back();
    table.ops.push_back(entry);
    if (entry.last_of_rank)
      for (const std::int64_t index : last_[rank])
        if (index >= 0) table.ops[static_cast<std::size_t>(index)].last_gradient = true;
    return true;
  }

  // The stage's first forward on the rank?
  bool begin(std::size_t rank, std::int32_t stage) {
    std::vector<bool>::reference begun = begun_[rank][static_cast<std::size_t>(stage)];
    const bool first = !begun;
    begun = true;
    return first;
  }

  const Schedule& schedule_;
  bool batched_;
  std::vector<std::vector<std::vector<Hop>>> batches_;
  MessagePlaces made_, sent_, received_;  // sent, received: the op after which it was posted
  std::vector<std::vector<std::uint16_t>> class_of_;
  std::vector<std::vector<std::uint32_t>> index_;  // [rank][op]: in the table
  std::vector<std::vector<bool>> begun_;           // [rank][stage]
  std::vector<std::vector<std::int64_t>> last_;    // [rank][stage]: op of the table, -1: none yet
  std::vector<Place> waits_;
  std::vector<std::uint32_t> needs_;
};

std::vector<std::int32_t> stages_on(const Schedule& schedule, std::int32_t rank) {
  std::vector<std::int32_t> stages;
  for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
    for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
      if (schedule.rank_of(direction, stage) == rank) stages.push_back(stage);
  return stages;
}

// The walk of memory_timeline.cc with counts in place of bytes.
class Holder {
 public:
  Holder(const Schedule& schedule, std::size_t rank, const std::vector<std::vector<Hop>>& batches,
         const std::vector<std::int32_t>& stages)
      : schedule_(schedule), rank_(rank), batches_(batches), stages_(stages) {
    now_.forwards.resize(stages.size());
    now_.weights.resize(stages.size());
  }

  std::vector<Moment> run(const std::vector<ScheduleTable::SlotClass>& classes) {
    const bool eager = schedule_.point_to_point == PointToPoint::eager;
    const auto& ops = schedule_.ranks[rank_];
    for (std::size_t k = 0; k <= ops.size(); ++k) {
      now_.messages += count(k, false);
      if (!batches_[k].empty()) add(-1);
      if (!eager) now_.messages -= count(k, true);
      if (k == ops.size()) break;
      now_.messages -= neighbours(ops[k], true);
      add(class_of(classes, ops[k]));
      now_.messages += neighbours(ops[k], false);
      hold(ops[k]);
      if (eager) now_.messages -= count(k, true);
    }
    return std::move(found_);
  }

 private:
  std::int32_t count(std::size_t k, bool send) const {
    return static_cast<std::int32_t>(std::ranges::count(batches_[k], send, &Hop::send));
  }

  static std::int32_t class_of(const std::vector<ScheduleTable::SlotClass>& classes, const ScheduleOp& op) {
    const auto found = std::ranges::find_if(classes, [&](const ScheduleTable::SlotClass& c) {
      return c.type == op.type && c.f_stage == op.f_stage && c.b_stage == op.b_stage;
    });
    return static_cast<std::int32_t>(found - classes.begin());
  }

  // Messages that come to the op, or leave it.
  std::int32_t neighbours(const ScheduleOp& op, bool in) const {
    const auto there = [&](std::int32_t stage) { return stage >= 0 && stage < schedule_.stages ? 1 : 0; };
    std::int32_t messages = 0;
    if (op.type == OpType::F || op.type == OpType::FB) messages += there(in ? op.f_stage - 1 : op.f_stage + 1);
    if (op.type != OpType::F && op.type != OpType::W) messages += there(in ? op.b_stage + 1 : op.b_stage - 1);
    return messages;
  }

  std::size_t cell(std::int32_t stage) const {
    return static_cast<std::size_t>(std::ranges::find(stages_, stage) - stages_.begin());
  }

  void hold(const ScheduleOp& op) {
    if (op.f_stage >= 0) ++now_.forwards[cell(op.f_stage)];
    if (op.b_stage < 0) return;
    if (op.type == OpType::W)
      --now_.weights[cell(op.b_stage)];
    else
      --now_.forwards[cell(op.b_stage)];
    if (op.type == OpType::I) ++now_.weights[cell(op.b_stage)];
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
  std::size_t rank_;
  const std::vector<std::vector<Hop>>& batches_;
  const std::vector<std::int32_t>& stages_;
  Moment now_;
  std::vector<Moment> found_;
};

}  // namespace

Result<ScheduleTable> make_schedule_table(const ScheduleKind& kind, const ScheduleShape& shape) {
  const Schedule schedule = kind.build(shape);
  ScheduleTable table;
  table.outline = kind.outline(shape);
  Orderer orderer(schedule);
  if (!orderer.run(table)) {
    const auto run = evaluate(schedule, ScheduleCosts{}, schedule.point_to_point);
    return tl::unexpected(run ? Error{} : run.error());
  }
  const auto batches = point_to_point_batches(schedule);
  auto ops_of_rank = orderer.take_ops();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    ScheduleTable::Rank entry;
    entry.stages = stages_on(schedule, static_cast<std::int32_t>(rank));
    entry.ops = std::move(ops_of_rank[rank]);
    entry.moments = Holder(schedule, rank, batches[rank], entry.stages).run(table.classes);
    table.ranks.push_back(std::move(entry));
  }
  return table;
}

}  // namespace plumbline::model
