#include "sim/predict/gather_walk.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plumbline::sim {

namespace {

using Op = model::ScheduleTable::Op;
using Reduce = StepRecurrence::Reduce;
using Moment = std::pair<std::int32_t, std::int32_t>;  // slot of the rank, segment

constexpr std::int32_t none = -1;

struct Use {  // of a unit's parameters, by consecutive slots
  std::int32_t stage = 0, unit = 0;
  Moment first, last;
  double seconds = 0;         // of its gather
  double end = 0;             // of the gather, once computed
  std::int32_t next = none;   // another use whose gather starts in the same slot
  std::int32_t after = none;  // segment of that slot
  bool gathered = true;       // false: its parameters were still there
};

// Walks one rank after the other and reuses the large buffers of the previous one.
class RankWalk {
 public:
  explicit RankWalk(const StepRecurrence& step) : step_(step) {}

  // starts: of the table's ops; empty: slots run back to back. Calls late(op, seconds) for each slot.
  template <class Late>
  void run(const model::ScheduleTable::Rank& rank, const std::vector<double>& starts, const Late& late) {
    rank_ = &rank;
    next_ = 0;
    now_ = free_ = reduced_ = gate_ = 0;
    copies_.clear();
    collect();
    if (!step_.reshard) keep_between();
    schedule();
    for (std::size_t k = 0; k < rank.ops.size(); ++k) {
      const Op& op = step_.table->ops[rank.ops[k]];
      const double begin = starts.empty() ? now_ : std::max(now_, starts[rank.ops[k]]);
      late(op, slot(static_cast<std::int32_t>(k), op, begin));
    }
  }

  // Returns the units that run() gathers, without times.
  std::vector<std::pair<std::int32_t, std::int32_t>> gathers(const model::ScheduleTable::Rank& rank) {
    rank_ = &rank;
    collect();
    if (!step_.reshard) keep_between();
    std::vector<std::pair<std::int32_t, std::int32_t>> units;
    for (const Use& use : uses_)
      if (use.gathered) units.emplace_back(use.stage, use.unit);
    return units;
  }

  GradientsReady ready() const { return gradients_ready(now_, reduced_, copies_); }

 private:
  const Op& op(std::int32_t slot) const { return step_.table->ops[rank_->ops[static_cast<std::size_t>(slot)]]; }
  const model::ScheduleTable::SlotClass& stages(std::int32_t slot) const {
    return step_.table->classes[op(slot).slot_class];
  }

  // Collects the uses; consecutive uses of a unit count as one, because its parameters stay.
  void collect() {
    uses_.clear();
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(rank_->ops.size()); ++k) {
      const auto& here = stages(k);
      for (const SlotSync::Use& use : step_.syncs[op(k).slot_class]->uses) {
        const std::int32_t stage = use.forward ? here.f_stage : here.b_stage;
        if (!uses_.empty() && uses_.back().stage == stage && uses_.back().unit == use.unit)
          uses_.back().last = {k, use.last};
        else
          uses_.push_back({stage, use.unit, {k, use.first}, {k, use.last}, use.seconds});
      }
    }
  }

  void keep_between() {
    std::map<std::int32_t, std::int32_t> in_flight;               // micro-batches of a stage
    std::map<std::pair<std::int32_t, std::int32_t>, bool> there;  // (stage, unit)
    std::int32_t seen = 0;
    for (Use& use : uses_) {
      for (; seen <= use.first.first; ++seen) {
        const std::int32_t ended = seen == 0 || op(seen - 1).type == model::OpType::W ? none : stages(seen - 1).b_stage;
        if (ended >= 0 && --in_flight[ended] == 0)
          std::erase_if(there, [&](const auto& entry) { return entry.first.first == ended; });
        if (stages(seen).f_stage >= 0) ++in_flight[stages(seen).f_stage];
      }
      use.gathered = !std::exchange(there[{use.stage, use.unit}], true);
    }
  }

  // A gather starts when its buffer is free. Gathers that get an initial buffer start with the step.
  void schedule() {
    started_.assign(rank_->ops.size(), none);
    begun_.assign(rank_->ops.size(), none);
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      Use& use = uses_[i];
      if (!use.gathered) continue;
      std::int32_t freed = static_cast<std::int32_t>(i) - static_cast<std::int32_t>(step_.buffers);
      while (freed >= 0 && uses_[static_cast<std::size_t>(freed)].last >= use.first) --freed;
      if (freed < 0) {
        use.end = free_ += use.seconds;
        continue;
      }
      const auto [slot, segment] = uses_[static_cast<std::size_t>(freed)].last;
      use.after = segment;
      std::int32_t& last = begun_[static_cast<std::size_t>(slot)];
      (last < 0 ? started_[static_cast<std::size_t>(slot)] : uses_[static_cast<std::size_t>(last)].next) =
          static_cast<std::int32_t>(i);
      last = static_cast<std::int32_t>(i);
    }
  }

  // Returns how many seconds longer the slot took.
  double slot(std::int32_t k, const Op& op, double begin) {
    const TemplateRun& run = *step_.runs[op.slot_class];
    const SlotSync& sync = *step_.syncs[op.slot_class];
    double late = std::max(0.0, std::exchange(gate_, 0.0) - begin);
    starting_.clear();
    for (std::int32_t i = started_[static_cast<std::size_t>(k)]; i >= 0; i = uses_[static_cast<std::size_t>(i)].next)
      starting_.push_back(i);
    const auto after = [&](std::int32_t i) { return uses_[static_cast<std::size_t>(i)].after; };
    if (!std::ranges::is_sorted(starting_, {}, after)) std::ranges::stable_sort(starting_, {}, after);
    std::size_t gather = 0, reduce = 0;
    // Starts everything that the segments before `segment` allow; after the same segment, gathers before reductions.
    const auto start_until = [&](std::int32_t segment) {
      while (true) {
        const std::int32_t g =
            gather < starting_.size() ? uses_[static_cast<std::size_t>(starting_[gather])].after : segment;
        std::int32_t r = segment;
        if (reduce < sync.reduces.size() && sync.reduces[reduce].segment >= 0) r = sync.reduces[reduce].segment;
        if (std::min(g, r) >= segment) return;
        if (g <= r)
          start_gather(uses_[static_cast<std::size_t>(starting_[gather++])], begin + late + end_of(run, g));
        else
          start_reduce(op, sync.reduces[reduce++], begin + late + end_of(run, r));
      }
    };
    for (; next_ < uses_.size() && uses_[next_].first.first == k; ++next_) {
      const Use& use = uses_[next_];
      if (!use.gathered) continue;
      start_until(use.first.second);
      late += std::max(0.0, use.end - (begin + late + start_of(run, use.first.second)));
    }
    start_until(static_cast<std::int32_t>(run.segments.size()));
    now_ = begin + late + run.seconds;
    for (; reduce < sync.reduces.size(); ++reduce) start_reduce(op, sync.reduces[reduce], now_);
    if (step_.reduce == Reduce::each_waiting && !op.last_of_rank && !sync.reduces.empty()) gate_ = reduced_;
    return late;
  }

  static double start_of(const TemplateRun& run, std::int32_t segment) {
    return to_seconds(run.segments[static_cast<std::size_t>(segment)].start);
  }
  static double end_of(const TemplateRun& run, std::int32_t segment) {
    return to_seconds(run.segments[static_cast<std::size_t>(segment)].end);
  }

  void start_gather(Use& use, double at) { use.end = free_ = std::max(free_, at) + use.seconds; }

  void start_reduce(const Op& op, const SlotSync::Part& part, double at) {
    reduced_ = free_ = std::max(free_, at) + part.seconds;
    if (part.copy > 0 && op.last_gradient) copies_.emplace_back(free_, part.copy);
  }

  const StepRecurrence& step_;
  const model::ScheduleTable::Rank* rank_ = nullptr;
  std::vector<Use> uses_;
  std::vector<std::int32_t> started_;   // [slot]: the first use whose gather starts in the slot
  std::vector<std::int32_t> begun_;     // [slot]: the last such use
  std::vector<std::int32_t> starting_;  // uses of the running slot, in the order of their starts
  std::size_t next_ = 0;                // use
  double now_ = 0, free_ = 0, reduced_ = 0, gate_ = 0;
  std::vector<std::pair<double, double>> copies_;  // when a gradient is reduced, seconds of its copy
};

// Finds the starts of the table's ops in the recurrence.
void find_starts(const StepRecurrence& step, std::vector<double>& starts) {
  const model::ScheduleTable& table = *step.table;
  static thread_local std::vector<double> ends;
  ends.resize(table.ops.size());
  starts.resize(table.ops.size());
  const std::vector<double> costs = slot_costs(step);
  std::vector<double> rank_end(table.ranks.size(), 0.0);
  std::uint32_t need = 0;
  for (std::size_t i = 0; i < table.ops.size(); ++i) {
    const Op& op = table.ops[i];
    starts[i] = model::table_start(table, need, op, rank_end[op.rank], step.p2p, ends);
    need = op.needs_end;
    rank_end[op.rank] = ends[i] = starts[i] + costs[op.slot_class];
  }
}

}  // namespace

void walk_with_gathers(const StepRecurrence& step, bool alone, StepWalk& walk) {
  static thread_local std::vector<double> starts;
  find_starts(step, starts);
  if (alone) starts.clear();
  walk.ranks.clear();
  walk.gather_waits.clear();
  walk.slot_seconds = {};
  RankWalk walked(step);
  for (const auto& rank : step.table->ranks) {
    double waits = 0;
    walked.run(rank, starts, [&](const Op& op, double late) {
      waits += late;
      if (alone) walk.slot_seconds[static_cast<std::size_t>(op.type)] += step.runs[op.slot_class]->seconds + late;
    });
    walk.gather_waits.push_back(waits);
    walk.ranks.push_back(walked.ready());
  }
}

std::array<double, 5> mean_gather_waits(const StepRecurrence& step, std::size_t rank) {
  std::array<double, 5> waits{}, counts{};
  RankWalk walked(step);
  walked.run(step.table->ranks[rank], {}, [&](const Op& op, double late) {
    waits[static_cast<std::size_t>(op.type)] += late;
    ++counts[static_cast<std::size_t>(op.type)];
  });
  for (std::size_t type = 0; type < waits.size(); ++type)
    if (counts[type] > 0) waits[type] /= counts[type];
  return waits;
}

std::vector<std::pair<std::int32_t, std::int32_t>> gathered_units(const StepRecurrence& step, std::size_t rank) {
  return RankWalk(step).gathers(step.table->ranks[rank]);
}

}  // namespace plumbline::sim
