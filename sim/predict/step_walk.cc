#include "sim/predict/step_walk.h"

#include <algorithm>
#include <optional>

#include "sim/predict/detail/gather_walk.h"
#include "sim/predict/detail/overlap_clock.h"

namespace plumbline::sim {

namespace {

using Op = model::ScheduleTable::Op;
using Reduce = StepRecurrence::Reduce;

// One rank whose parameters are gathered once a step or not at all.
class Walk {
 public:
  void restart(const StepRecurrence& step, std::size_t rank) {
    step_ = &step;
    clock_.restart(step.collective_slowdown);
    reduces_each_ = step.reduce == Reduce::each;
    gathered_ = 0;
    gate_ = false;
    reduced_.reset();
    last_.clear();
    copies_.clear();
    if (!step.gathers) return;
    // All gathers start with the step, one after the other, in the order in which slots need them.
    for (const std::uint32_t op : step.table->ranks[rank].ops)
      if (step.table->ops[op].first_forward)
        for (const SlotSync::Part& part : step.syncs[step.table->ops[op].slot_class]->gathers)
          clock_.post(part.seconds);
  }

  // Runs the next slot of the rank from `begin` on if no collective runs or starts in it, and returns whether.
  bool run_free(const Op& op, double begin) {
    if (!clock_.idle() || !plain(op) || reduces_each_) return false;
    clock_.wait_until(begin + step_->runs[op.slot_class]->seconds);
    return true;
  }

  // Runs the next slot of the rank from `begin` on, and returns the seconds that it waits for collectives.
  double run(const Op& op, double begin) {
    const TemplateRun& run = *step_->runs[op.slot_class];
    const SlotSync& sync = *step_->syncs[op.slot_class];
    clock_.wait_until(begin);
    computed_ = 0;
    if (plain(op)) {
      run_plain(run, sync);
      return 0;
    }
    double late = std::exchange(gate_, false) ? clock_.wait_for(*reduced_) : 0;
    std::size_t next = 0;
    const bool reduces_here = step_->reduce == Reduce::once ? op.last_gradient : step_->reduce != Reduce::once_at_end;
    const auto reduce_until = [&](std::int32_t segment) {  // those that the segments before it allow
      for (; reduces_here && next < sync.reduces.size(); ++next) {
        const SlotSync::Part& part = sync.reduces[next];
        if (part.segment < 0 || part.segment >= segment) break;
        compute_until(to_seconds(run.segments[static_cast<std::size_t>(part.segment)].end), sync);
        reduce(op, part);
      }
    };
    if (op.first_forward && step_->gathers)
      for (const SlotSync::Part& part : sync.gathers) {
        reduce_until(part.segment);
        if (part.segment >= 0)
          compute_until(to_seconds(run.segments[static_cast<std::size_t>(part.segment)].start), sync);
        late += clock_.wait_for(gathered_++);
      }
    reduce_until(static_cast<std::int32_t>(run.segments.size()));
    compute_until(run.seconds, sync);
    for (; reduces_here && next < sync.reduces.size(); ++next) reduce(op, sync.reduces[next]);
    gate_ = step_->reduce == Reduce::each_waiting && reduced_ && !op.last_of_rank && !sync.reduces.empty();
    if (op.last_gradient) last_.emplace_back(step_->table->classes[op.slot_class].b_stage, &sync);
    if (op.last_of_rank) finish();
    return late;
  }

  const OverlapClock& clock() const { return clock_; }

  GradientsReady ready() const {
    std::vector<std::pair<double, double>> copies = local_copies();
    for (const auto& [reduction, seconds] : copies_) copies.emplace_back(clock_.end_of(reduction), seconds);
    return gradients_ready(clock_.now(), reduced_ ? clock_.end_of(*reduced_) : 0, std::move(copies));
  }

 private:
  // Returns whether the slot waits for no collective and need not start its reductions one by one.
  bool plain(const Op& op) const {
    return !op.last_gradient && !op.last_of_rank && !(op.first_forward && step_->gathers) &&
           step_->reduce != Reduce::each_waiting;
  }

  // The reductions of a slot end as one would that starts so long before the end of the last one.
  void run_plain(const TemplateRun& run, const SlotSync& sync) {
    const double seconds = step_->reduces ? sync.reduce_seconds : sync.local_seconds;
    if (step_->reduce == Reduce::each && seconds > 0) {
      compute_until(std::clamp(sync.reduce_tail - sync.reduce_seconds, 0.0, run.seconds), sync);
      reduced_ = clock_.post(seconds);
    }
    compute_until(run.seconds, sync);
  }

  // Computes up to what the slot reaches after so many seconds on a free GPU.
  void compute_until(double seconds, const SlotSync& sync) {
    if (seconds <= computed_) return;
    clock_.compute(seconds - computed_, sync.slowdown);
    computed_ = seconds;
  }

  void reduce(const Op& op, const SlotSync::Part& part) {
    if (!step_->reduces && part.local == 0) return;
    reduced_ = clock_.post(step_->reduces ? part.seconds : part.local);
    if (part.copy > 0 && (op.last_gradient || step_->reduce == Reduce::once_at_end))
      copies_.emplace_back(*reduced_, part.copy);
  }

  // Starts the reductions after the last slot.
  void finish() {
    std::ranges::sort(last_, {}, &std::pair<std::int32_t, const SlotSync*>::first);
    if (step_->reduce != Reduce::once_at_end) return;
    for (const auto& [stage, sync] : last_)
      for (const SlotSync::Part& part : sync->reduces) reduce({}, part);
  }

  // Returns the copies of gradients that are not reduced in this step.
  std::vector<std::pair<double, double>> local_copies() const {
    std::vector<std::pair<double, double>> copies;
    if (step_->reduces) return copies;
    for (const auto& [stage, sync] : last_)
      for (const SlotSync::Part& part : sync->reduces)
        if (part.copy > 0 && part.local == 0) copies.emplace_back(clock_.now(), part.copy);
    return copies;
  }

  const StepRecurrence* step_ = nullptr;
  OverlapClock clock_;
  bool reduces_each_ = false;
  double computed_ = 0;                                         // s of the running slot on a free GPU
  std::size_t gathered_ = 0;                                    // gathers that slots have waited for
  bool gate_ = false;                                           // the next slot waits for the last reduction
  std::optional<std::size_t> reduced_;                          // the last reduction
  std::vector<std::pair<std::int32_t, const SlotSync*>> last_;  // (stage, collectives of its last slot)
  std::vector<std::pair<std::size_t, double>> copies_;          // a gradient's reduction, seconds of its copy
};

// Runs the ops in the order of the table, in which none waits for a later one.
template <class RankWalk>
void walk(const StepRecurrence& step, std::vector<RankWalk>& ranks, StepWalk& result) {
  const model::ScheduleTable& table = *step.table;
  const std::size_t count = table.ranks.size();
  if (ranks.size() < count) ranks.resize(count);
  for (std::size_t rank = 0; rank < count; ++rank) ranks[rank].restart(step, rank);
  result.ranks.assign(count, {});
  result.class_longer.assign(step.runs.size(), 0);
  static thread_local std::vector<double> ends;
  ends.resize(table.ops.size());
  std::uint32_t need = 0;
  for (std::size_t i = 0; i < table.ops.size(); ++i) {
    const Op& op = table.ops[i];
    RankWalk& rank = ranks[op.rank];
    const double start = model::table_start(table, need, op, rank.clock().now(), step.p2p, ends);
    need = op.needs_end;
    if (rank.run_free(op, start)) {
      ends[i] = rank.clock().now();
      continue;
    }
    StepWalk::Rank& walked = result.ranks[op.rank];
    walked.gather_wait += rank.run(op, start);
    ends[i] = rank.clock().now();
    const double longer = ends[i] - start - step.runs[op.slot_class]->seconds;
    walked.longer[static_cast<std::size_t>(op.type)] += longer;
    result.class_longer[op.slot_class] += longer;
  }
  for (std::size_t rank = 0; rank < count; ++rank) {
    result.ranks[rank].ready = ranks[rank].ready();
    result.ranks[rank].slowed = ranks[rank].clock().slowed();
  }
}

}  // namespace

void walk_step(const StepRecurrence& step, StepWalk& result) {
  static thread_local std::vector<Walk> walks;
  static thread_local std::vector<GatherWalk> with_gathers;
  if (step.gathers_each)
    walk(step, with_gathers, result);
  else
    walk(step, walks, result);
}

std::vector<std::pair<std::int32_t, std::int32_t>> gathered_units(const StepRecurrence& step, std::size_t rank) {
  GatherWalk walk;
  walk.restart(step, rank);
  return walk.gathers();
}

}  // namespace plumbline::sim
