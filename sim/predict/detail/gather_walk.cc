#include "sim/predict/detail/gather_walk.h"

#include <algorithm>
#include <map>

namespace plumbline::sim {

namespace {

double start_of(const TemplateRun& run, std::int32_t segment) {
  return to_seconds(run.segments[static_cast<std::size_t>(segment)].start);
}
double end_of(const TemplateRun& run, std::int32_t segment) {
  return to_seconds(run.segments[static_cast<std::size_t>(segment)].end);
}

}  // namespace

void GatherWalk::restart(const StepRecurrence& step, std::size_t rank) {
  step_ = &step;
  rank_ = &step.table->ranks[rank];
  clock_.restart(step.collective_slowdown);
  slot_ = 0;
  next_ = 0;
  reduced_.reset();
  gate_ = false;
  copies_.clear();
  collect();
  if (!step.reshard) keep_between();
  schedule();
}

// Consecutive uses of a unit count as one, because its parameters stay.
void GatherWalk::collect() {
  uses_.clear();
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(rank_->ops.size()); ++k) {
    const auto& here = stages(k);
    for (const SlotSync::Use& use : step_->syncs[op(k).slot_class]->uses) {
      const std::int32_t stage = use.forward ? here.f_stage : here.b_stage;
      if (!uses_.empty() && uses_.back().stage == stage && uses_.back().unit == use.unit)
        uses_.back().last = {k, use.last};
      else
        uses_.push_back({stage, use.unit, {k, use.first}, {k, use.last}, use.seconds});
    }
  }
}

void GatherWalk::keep_between() {
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
void GatherWalk::schedule() {
  started_.assign(rank_->ops.size(), none);
  begun_.assign(rank_->ops.size(), none);
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    Use& use = uses_[i];
    if (!use.gathered) continue;
    std::int32_t freed = static_cast<std::int32_t>(i) - static_cast<std::int32_t>(step_->buffers);
    while (freed >= 0 && uses_[static_cast<std::size_t>(freed)].last >= use.first) --freed;
    if (freed < 0) {
      use.gather = clock_.post(use.seconds);
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

// Finds the uses whose gathers start in the slot, by the segment after which they start.
void GatherWalk::find_starting() {
  starting_.clear();
  for (std::int32_t i = started_[static_cast<std::size_t>(slot_)]; i >= 0; i = uses_[static_cast<std::size_t>(i)].next)
    starting_.push_back(i);
  const auto after = [&](std::int32_t i) { return uses_[static_cast<std::size_t>(i)].after; };
  if (!std::ranges::is_sorted(starting_, {}, after)) std::ranges::stable_sort(starting_, {}, after);
}

double GatherWalk::run(const Op& op, double begin) {
  const TemplateRun& run = *step_->runs[op.slot_class];
  const SlotSync& sync = *step_->syncs[op.slot_class];
  clock_.wait_until(begin);
  double late = std::exchange(gate_, false) ? clock_.wait_for(*reduced_) : 0;
  find_starting();
  double computed = 0;  // s of the slot on a free GPU
  const auto compute_until = [&](double at) {
    if (at <= computed) return;
    clock_.compute(at - computed, sync.slowdown);
    computed = at;
  };
  std::size_t gather = 0, reduction = 0;
  // Starts everything that the segments before `segment` allow; after the same segment, gathers before reductions.
  const auto start_until = [&](std::int32_t segment) {
    while (true) {
      const std::int32_t g =
          gather < starting_.size() ? uses_[static_cast<std::size_t>(starting_[gather])].after : segment;
      std::int32_t r = segment;
      if (reduction < sync.reduces.size() && sync.reduces[reduction].segment >= 0) r = sync.reduces[reduction].segment;
      if (std::min(g, r) >= segment) return;
      compute_until(end_of(run, std::min(g, r)));
      if (g <= r) {
        Use& use = uses_[static_cast<std::size_t>(starting_[gather++])];
        use.gather = clock_.post(use.seconds);
      } else {
        reduce(op, sync.reduces[reduction++]);
      }
    }
  };
  for (; next_ < uses_.size() && uses_[next_].first.first == slot_; ++next_) {
    const Use& use = uses_[next_];
    if (!use.gathered) continue;
    start_until(use.first.second);
    compute_until(start_of(run, use.first.second));
    late += clock_.wait_for(use.gather);
  }
  start_until(static_cast<std::int32_t>(run.segments.size()));
  compute_until(run.seconds);
  for (; reduction < sync.reduces.size(); ++reduction) reduce(op, sync.reduces[reduction]);
  gate_ = step_->reduce == StepRecurrence::Reduce::each_waiting && !op.last_of_rank && !sync.reduces.empty();
  ++slot_;
  return late;
}

void GatherWalk::reduce(const Op& op, const SlotSync::Part& part) {
  reduced_ = clock_.post(step_->reduces ? part.seconds : part.local);
  if (part.copy > 0 && op.last_gradient) copies_.emplace_back(*reduced_, part.copy);
}

GradientsReady GatherWalk::ready() const {
  std::vector<std::pair<double, double>> copies;
  for (const auto& [reduction, seconds] : copies_) copies.emplace_back(clock_.end_of(reduction), seconds);
  return gradients_ready(clock_.now(), reduced_ ? clock_.end_of(*reduced_) : 0, std::move(copies));
}

std::vector<std::pair<std::int32_t, std::int32_t>> GatherWalk::gathers() const {
  std::vector<std::pair<std::int32_t, std::int32_t>> units;
  for (const Use& use : uses_)
    if (use.gathered) units.emplace_back(use.stage, use.unit);
  return units;
}

}  // namespace plumbline::sim
