#include "model/program/data_parallel.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

using CollectiveKind = DataParallelCollectives::Kind;
using SlotSegment = DataParallelCollectives::Moment;

class Planner {
 public:
  Planner(const Plan& plan, const StepProgram& program, std::size_t rank)
      : plan_(plan), program_(program), ops_(program.schedule.ranks[rank]), slots_(program.slot_templates[rank]) {}

  std::vector<DataParallelCollectives> run() {
    const std::int64_t zero = plan_.parallelism.zero_stage;
    if (zero == 1 || zero == 2) gather_once();
    if (zero == 3) gather_every_time();
    if (zero <= 1) reduce_once();
    if (zero >= 2) reduce_every_time();
    std::ranges::stable_sort(result_, {}, [](const DataParallelCollectives& s) {
      return std::pair(s.after.slot, s.after.segment < 0 && s.after.slot >= 0 ? INT32_MAX : s.after.segment);
    });
    return std::move(result_);
  }

 private:
  static bool writes_gradients(const ScheduleOp& op) {
    return op.type == OpType::B || op.type == OpType::W || op.type == OpType::FB;
  }
  static bool reads_parameters(const ScheduleOp& op) { return op.type != OpType::W; }

  const std::vector<ShardUnit>& units(std::int32_t stage) const {
    return program_.stage_units[static_cast<std::size_t>(stage)];
  }

  // Returns a unit's span in a slot; slots with the same template share it.
  SegmentSpan span_of(std::int32_t slot, bool forward, std::int32_t stage, std::int32_t unit, bool writing) {
    const std::uint16_t index = slots_[static_cast<std::size_t>(slot)];
    const auto [entry, fresh] = spans_.try_emplace(std::tuple(index, forward, stage, writing));
    if (fresh)
      entry->second = segment_spans(program_.blocks, program_.templates[index], forward, units(stage), writing);
    return entry->second[static_cast<std::size_t>(unit)];
  }

  void gather_once() {
    if (program_.gather_after_update) return;
    std::map<std::int32_t, bool> seen;
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot) {
      const std::int32_t stage = ops_[static_cast<std::size_t>(slot)].f_stage;
      if (stage < 0 || std::exchange(seen[stage], true)) continue;
      std::vector<DataParallelCollectives> gathers;
      for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units(stage).size()); ++unit)
        gathers.push_back(
            {CollectiveKind::gather, stage, unit, {}, {slot, span_of(slot, true, stage, unit, false).first}});
      std::ranges::stable_sort(gathers, {}, [](const DataParallelCollectives& s) { return s.before.segment; });
      result_.insert(result_.end(), gathers.begin(), gathers.end());
    }
  }

  void reduce(std::int32_t slot, std::int32_t stage) {
    const bool overlap = plan_.overlap.gradient_reduce;
    const auto last = static_cast<std::int32_t>(ops_.size()) - 1;
    const bool waits = !overlap && plan_.parallelism.zero_stage >= 2 && slot < last;
    for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units(stage).size()); ++unit) {
      if (units(stage)[static_cast<std::size_t>(unit)].gradients.empty()) continue;  // frozen
      DataParallelCollectives s{CollectiveKind::reduce, stage, unit, {slot, -1}, {}};
      if (overlap) s.after.segment = span_of(slot, false, stage, unit, true).last;
      if (waits) s.before = {slot + 1, -1};
      if (!overlap && plan_.parallelism.zero_stage < 2) s.after.slot = last;
      result_.push_back(s);
    }
  }

  void reduce_once() {
    std::map<std::int32_t, std::int32_t> last;  // the last slot that writes gradients of a stage
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot)
      if (writes_gradients(ops_[static_cast<std::size_t>(slot)]))
        last[ops_[static_cast<std::size_t>(slot)].b_stage] = slot;
    for (const auto& [stage, slot] : last) reduce(slot, stage);
  }

  void reduce_every_time() {
    const bool runs = plan_.parallelism.reduce_after == "run";
    std::int32_t last = -1;  // slot that writes gradients, not reduced yet
    const auto stage = [this](std::int32_t slot) { return ops_[static_cast<std::size_t>(slot)].b_stage; };
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot) {
      if (!writes_gradients(ops_[static_cast<std::size_t>(slot)])) continue;
      if (last >= 0 && (!runs || stage(last) != stage(slot))) reduce(last, stage(last));
      last = slot;
    }
    if (last >= 0) reduce(last, stage(last));
  }

  struct Use {  // a use of a unit's parameters
    std::int32_t stage = 0, unit = 0;
    SlotSegment first, last;
    bool gathered = true;  // else still in memory
  };

  void add_uses(std::int32_t slot, bool forward, std::int32_t stage, std::vector<Use>& uses) {
    for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units(stage).size()); ++unit) {
      const SegmentSpan span = span_of(slot, forward, stage, unit, false);
      if (span.first >= 0) uses.push_back({stage, unit, {slot, span.first}, {slot, span.last}});
    }
  }

  // Returns the uses in the order in which the rank reaches them. Consecutive uses of a unit are merged.
  std::vector<Use> uses() {
    std::vector<Use> all;
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(ops_.size()); ++slot) {
      const ScheduleOp& op = ops_[static_cast<std::size_t>(slot)];
      std::vector<Use> now;
      if (op.f_stage >= 0) add_uses(slot, true, op.f_stage, now);
      if (op.b_stage >= 0 && reads_parameters(op)) add_uses(slot, false, op.b_stage, now);
      std::ranges::stable_sort(now, {}, [](const Use& use) { return use.first.segment; });
      for (const Use& use : now) {
        const bool again = !all.empty() && all.back().stage == use.stage && all.back().unit == use.unit;
        if (again)
          all.back().last = use.last;
        else
          all.push_back(use);
      }
    }
    return all;
  }

  // Without resharding a unit stays in memory from a forward until no micro-batch waits for its backward.
  void keep_between(std::vector<Use>& all) const {
    std::map<std::int32_t, std::int32_t> in_flight;               // micro-batches of a stage
    std::map<std::pair<std::int32_t, std::int32_t>, bool> there;  // (stage, unit)
    std::int32_t seen = 0;
    for (Use& use : all) {
      for (; seen <= use.first.slot; ++seen) follow(seen, in_flight, there);
      use.gathered = !std::exchange(there[{use.stage, use.unit}], true);
    }
  }

  // Updates the counts to the start of `slot`, when the slot before it has ended.
  void follow(std::int32_t slot, std::map<std::int32_t, std::int32_t>& in_flight,
              std::map<std::pair<std::int32_t, std::int32_t>, bool>& there) const {
    if (slot > 0) {
      const ScheduleOp& before = ops_[static_cast<std::size_t>(slot - 1)];
      if (before.b_stage >= 0 && reads_parameters(before) && --in_flight[before.b_stage] == 0)
        std::erase_if(there, [&](const auto& entry) { return entry.first.first == before.b_stage; });
    }
    const ScheduleOp& op = ops_[static_cast<std::size_t>(slot)];
    if (op.f_stage >= 0) ++in_flight[op.f_stage];
  }

  void gather_every_time() {
    std::vector<Use> all = uses();
    if (!plan_.parallelism.reshard_after_forward) keep_between(all);
    const auto buffers = static_cast<std::size_t>(plan_.overlap.prefetch) + 1;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].gathered)
        result_.push_back({CollectiveKind::gather, all[i].stage, all[i].unit, freed(all, i, buffers), all[i].first});
  }

  // Returns the end of the use whose buffer use `i` takes. Uses of an overlapped pair may be nested; then the buffer of
  // an earlier use is taken.
  static SlotSegment freed(const std::vector<Use>& all, std::size_t i, std::size_t buffers) {
    const auto place = [](const SlotSegment& moment) { return std::pair(moment.slot, moment.segment); };
    for (std::size_t j = i; j-- > 0;)
      if (i - j >= buffers && place(all[j].last) < place(all[i].first)) return all[j].last;
    return {};
  }

  const Plan& plan_;
  const StepProgram& program_;
  const std::vector<ScheduleOp>& ops_;
  const std::vector<std::uint16_t>& slots_;
  std::vector<DataParallelCollectives> result_;
  std::map<std::tuple<std::uint16_t, bool, std::int32_t, bool>, std::vector<SegmentSpan>> spans_;
};

}  // namespace

std::vector<SegmentSpan> segment_spans(const std::vector<Graph>& blocks, const SlotTemplate& slot, bool forward,
                                       const std::vector<ShardUnit>& units, bool writing) {
  std::vector<std::vector<std::int32_t>> owners;  // [block of stage][tensor]: unit, -1 for none
  const auto owner = [&owners](std::size_t block, TensorId tensor) -> std::int32_t& {
    if (owners.size() <= block) owners.resize(block + 1);
    if (owners[block].size() <= tensor) owners[block].resize(tensor + 1, -1);
    return owners[block][tensor];
  };
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (const ShardUnit::Place& place : writing ? units[unit].gradients : units[unit].parameters)
      owner(place.block_of_stage, place.tensor) = static_cast<std::int32_t>(unit);
  std::vector<SegmentSpan> spans(units.size());
  for (std::size_t i = 0; i < slot.segments.size(); ++i) {
    const Segment& segment = slot.segments[i];
    if (segment.forward_side != forward || segment.block_of_stage >= owners.size()) continue;
    const std::vector<std::int32_t>& here = owners[segment.block_of_stage];
    for (const std::uint16_t index : segment.operators) {
      const Operator& op = blocks[segment.block].operators[index];
      for (const TensorId id : writing ? op.writes : op.reads) {
        if (id >= here.size() || here[id] < 0) continue;
        SegmentSpan& span = spans[static_cast<std::size_t>(here[id])];
        if (span.first < 0) span.first = static_cast<std::int32_t>(i);
        span.last = static_cast<std::int32_t>(i);
      }
    }
  }
  return spans;
}

std::vector<std::vector<DataParallelCollectives>> data_parallel(const Plan& plan, const StepProgram& program) {
  std::vector<std::vector<DataParallelCollectives>> all;
  for (std::size_t rank = 0; rank < program.schedule.ranks.size(); ++rank)
    all.push_back(Planner(plan, program, rank).run());
  return all;
}

}  // namespace plumbline::model
