#include "sim/predict/step_recurrence.h"

#include <algorithm>
#include <array>
#include <utility>

namespace plumbline::sim {

namespace {

using Op = model::ScheduleTable::Op;
using Reduce = StepRecurrence::Reduce;

double end_of(const TemplateRun& run, std::int32_t segment) {
  return segment < 0 ? run.seconds : to_seconds(run.segments[static_cast<std::size_t>(segment)].end);
}

// One rank: its slots in order, and its stream of collectives.
class Rank {
 public:
  Rank(const StepRecurrence& step, std::size_t index) : step_(&step) {
    if (!step.gathers) return;
    // All gathers start with the step, one after the other.
    for (const std::int32_t stage : step.table->ranks[index].stages)
      for (std::size_t c = 0; c < step.syncs.size(); ++c)
        if (step.table->classes[c].f_stage == stage) {
          for (const SlotSync::Part& part : step.syncs[c]->gathers) free_ += part.seconds;
          break;
        }
  }

  double now() const { return now_; }

  bool plain(const Op& op) const {
    return !op.last_gradient && !op.last_of_rank && !(op.first_forward && step_->gathers) &&
           step_->reduce != Reduce::each_waiting;
  }

  // Runs a slot that waits for no collective.
  void run_plain(const Op& op, double begin) {
    now_ = begin + step_->runs[op.slot_class]->seconds;
    if (step_->reduce != Reduce::each || !step_->reduces) return;
    const SlotSync& sync = *step_->syncs[op.slot_class];
    if (sync.reduces.empty()) return;
    free_ = std::max(free_ + sync.reduce_seconds, begin + sync.reduce_tail);
    reduced_ = free_;
  }

  // Returns how many seconds longer the slot took.
  double run(const Op& op, double begin) {
    const TemplateRun& run = *step_->runs[op.slot_class];
    const SlotSync& sync = *step_->syncs[op.slot_class];
    double late = std::max(0.0, std::exchange(gate_, 0.0) - begin);
    gates_.clear();
    if (op.first_forward && step_->gathers)
      for (const SlotSync::Part& part : sync.gathers) gates_.emplace_back(part.segment, gathered_ += part.seconds);
    for (const auto& [segment, until] : gates_)
      if (segment < 0) late = std::max(late, until - begin);
    std::size_t next = 0;
    const bool reduces_here = step_->reduce == Reduce::once ? op.last_gradient : step_->reduce != Reduce::once_at_end;
    for (const auto& [segment, until] : gates_) {
      if (segment < 0) continue;
      for (; reduces_here && next < sync.reduces.size(); ++next) {
        const SlotSync::Part& part = sync.reduces[next];
        if (part.segment < 0 || part.segment >= segment) break;
        reduce(op, part, begin + late + end_of(run, part.segment));
      }
      late += std::max(0.0, until - (begin + late + to_seconds(run.segments[static_cast<std::size_t>(segment)].start)));
    }
    for (; reduces_here && next < sync.reduces.size(); ++next)
      reduce(op, sync.reduces[next], begin + late + end_of(run, sync.reduces[next].segment));
    now_ = begin + late + run.seconds;
    if (step_->reduce == Reduce::each_waiting && !op.last_of_rank && !sync.reduces.empty()) gate_ = reduced_;
    if (op.last_gradient) last_.emplace_back(step_->table->classes[op.slot_class].b_stage, &sync);
    if (op.last_of_rank) finish();
    return late;
  }

  GradientsReady ready() const { return gradients_ready(now_, reduced_, copies_); }

 private:
  void reduce(const Op& op, const SlotSync::Part& part, double at) {
    if (!step_->reduces) return;
    free_ = std::max(free_, at) + part.seconds;
    reduced_ = free_;
    if (part.copy > 0 && (op.last_gradient || step_->reduce == Reduce::once_at_end))
      copies_.emplace_back(free_, part.copy);
  }

  // Runs the reductions and copies after the last slot.
  void finish() {
    std::ranges::sort(last_, {}, &std::pair<std::int32_t, const SlotSync*>::first);
    for (const auto& [stage, sync] : last_)
      for (const SlotSync::Part& part : sync->reduces) {
        if (step_->reduces && step_->reduce == Reduce::once_at_end) reduce({}, part, now_);
        if (!step_->reduces && part.copy > 0) copies_.emplace_back(now_, part.copy);
      }
  }

  const StepRecurrence* step_;
  double now_ = 0, free_ = 0, reduced_ = 0, gathered_ = 0, gate_ = 0;
  std::vector<std::pair<std::int32_t, const SlotSync*>> last_;  // (stage, collectives of its last slot)
  std::vector<std::pair<std::int32_t, double>> gates_;          // of the running slot
  std::vector<std::pair<double, double>> copies_;               // when a gradient is reduced, seconds of its copy
};

}  // namespace

std::vector<double> slot_costs(const StepRecurrence& step) {
  std::vector<double> costs;
  for (std::size_t c = 0; c < step.runs.size(); ++c)
    costs.push_back(step.runs[c]->seconds + step.waits[static_cast<std::size_t>(step.table->classes[c].type)]);
  return costs;
}

void walk_step(const StepRecurrence& step, bool alone, StepWalk& walk) {
  const model::ScheduleTable& table = *step.table;
  const std::size_t count = table.ranks.size();
  std::vector<Rank> ranks;
  ranks.reserve(count);
  for (std::size_t rank = 0; rank < count; ++rank) ranks.emplace_back(step, rank);
  static thread_local std::vector<double> ends;
  ends.resize(table.ops.size());
  std::vector<double> rank_end(count, 0.0);
  const std::vector<double> costs = slot_costs(step);
  walk.gather_waits.assign(count, 0);
  walk.slot_seconds = {};
  std::uint32_t need = 0;
  for (std::size_t i = 0; i < table.ops.size(); ++i) {
    const Op& op = table.ops[i];
    Rank& rank = ranks[op.rank];
    const double start = model::table_start(table, need, op, rank_end[op.rank], step.p2p, ends);
    need = op.needs_end;
    rank_end[op.rank] = ends[i] = start + costs[op.slot_class];
    const double begin = alone ? rank.now() : std::max(rank.now(), start);
    double late = 0;
    if (rank.plain(op))
      rank.run_plain(op, begin);
    else
      walk.gather_waits[op.rank] += late = rank.run(op, begin);
    if (alone) walk.slot_seconds[static_cast<std::size_t>(op.type)] += step.runs[op.slot_class]->seconds + late;
  }
  walk.ranks.clear();
  for (Rank& rank : ranks) walk.ranks.push_back(rank.ready());
}

std::array<double, 5> mean_waits(const StepRecurrence& step, std::size_t rank) {
  std::array<double, 5> waits{}, counts{};
  Rank walked(step, rank);
  for (const Op& op : step.table->ops) {
    if (op.rank != rank) continue;
    const auto type = static_cast<std::size_t>(op.type);
    ++counts[type];
    if (walked.plain(op))
      walked.run_plain(op, walked.now());
    else
      waits[type] += walked.run(op, walked.now());
  }
  for (std::size_t type = 0; type < waits.size(); ++type)
    if (counts[type] > 0) waits[type] /= counts[type];
  return waits;
}

}  // namespace plumbline::sim
