#include "sim/predict/step_walk.h"

#include <algorithm>
#include <optional>

#include "model/program/data_parallel.h"

namespace plumbline::sim {
namespace {

using Op = model::ScheduleTable::Op;
using Reduce = StepRecurrence::Reduce;

// The clock of one rank in closed form: its compute, and its stream of collectives, which run one after the other. Each
// is slower while the other runs.
class OverlapClock {
 public:
  // Starts at 0 with no collective. `slowdown` is the factor on a collective's time while the rank computes.
  void restart(double slowdown) {
    slowdown_ = slowdown;
    now_ = left_ = slowed_ = 0;
    seconds_.clear();
    ends_.clear();
  }

  double now() const { return now_; }
  double slowed() const { return slowed_; }  // s by which collectives have made compute longer
  bool idle() const { return ends_.size() == seconds_.size(); }

  // Posts a collective that takes `seconds` while the rank does not compute, and returns its number.
  std::size_t post(double seconds) {
    if (idle()) left_ = seconds;
    seconds_.push_back(seconds);
    return seconds_.size() - 1;
  }

  // Computes for what takes `seconds` without collectives, and `slowdown` times as long during one.
  void compute(double seconds, double slowdown) {
    while (seconds > 0 && !idle()) {
      const double whole = seconds * slowdown, collective = left_ * slowdown_;
      const double step = std::min(whole, collective);
      now_ += step;
      slowed_ += step - step / slowdown;
      if (whole < collective) {
        left_ -= step / slowdown_;
        return;
      }
      seconds -= step / slowdown;
      end_first();
    }
    if (seconds > 0) now_ += seconds;
  }

  // Waits without computing.
  void wait_until(double time) {
    if (time <= now_) return;
    while (now_ < time && !idle()) {
      if (now_ + left_ > time) {
        left_ -= time - now_;
        break;
      }
      now_ += left_;
      end_first();
    }
    now_ = std::max(now_, time);
  }
  // Waits for the end of a collective, and returns the seconds that it took.
  double wait_for(std::size_t collective) {
    const double before = now_;
    while (ends_.size() <= collective) {
      now_ += left_;
      end_first();
    }
    return now_ - before;
  }
  // Returns when a collective ends if the rank does not compute any more.
  double end_of(std::size_t collective) const {
    if (collective < ends_.size()) return ends_[collective];
    double end = now_ + left_;
    for (std::size_t i = ends_.size() + 1; i <= collective; ++i) end += seconds_[i];
    return end;
  }

 private:
  void end_first() {
    ends_.push_back(now_);
    left_ = idle() ? 0 : seconds_[ends_.size()];
  }

  double now_ = 0, left_ = 0, slowed_ = 0, slowdown_ = 1;  // left_: of the running collective
  std::vector<double> seconds_, ends_;                     // of all collectives, of those that have ended
};

double start_of(const TemplateRun& run, std::int32_t segment) {
  return to_seconds(run.segments[static_cast<std::size_t>(segment)].start);
}
double end_of(const TemplateRun& run, std::int32_t segment) {
  return to_seconds(run.segments[static_cast<std::size_t>(segment)].end);
}

// The slots of a rank for zero_stage 3, where a rank gathers parameters before every use. It applies the rules of
// model/program/data_parallel.h in one pass over the rank's slots.
class GatherWalk {
 public:
  // Begins the step of a rank. `step` must outlive the walk.
  void restart(const StepRecurrence& step, std::size_t rank) {
    step_ = &step;
    rank_ = &step.table->ranks[rank];
    clock_.restart(step.collective_slowdown);
    slot_ = 0;
    next_ = 0;
    reduced_.reset();
    gate_ = false;
    copies_.clear();
    collect();
    schedule();
  }
  bool run_free(const Op& /*op*/, double /*begin*/) { return false; }  // every slot uses parameters
  // Runs the next slot of the rank from `begin` on, and returns the seconds that it waits for collectives.
  double run(const Op& op, double begin) {
    const TemplateRun& run = *step_->runs[op.slot_class];
    const SlotSync& sync = *step_->syncs[op.slot_class];
    clock_.wait_until(begin);
    double late = std::exchange(gate_, false) ? clock_.wait_for(*reduced_) : 0;
    double computed = 0;  // s of the slot on a free GPU
    const auto compute_until = [&](double at) {
      if (at <= computed) return;
      clock_.compute(at - computed, sync.slowdown);
      computed = at;
    };
    std::size_t reduction = step_->reduces_after(op) ? 0 : sync.reduces.size();
    const bool reduces_here = reduction < sync.reduces.size();
    // Starts everything that the segments before `segment` allow; after the same segment, gathers before reductions.
    const auto start_until = [&](std::int32_t segment) {
      while (true) {
        std::int32_t g = segment, r = segment;
        if (begun_ < starting_.size() && uses_[starting_[begun_]].after.slot == slot_)
          g = uses_[starting_[begun_]].after.segment;
        if (reduction < sync.reduces.size() && sync.reduces[reduction].segment >= 0)
          r = sync.reduces[reduction].segment;
        if (std::min(g, r) >= segment) return;
        compute_until(end_of(run, std::min(g, r)));
        if (g <= r) {
          post(starting_[begun_++]);
        } else {
          reduce(op, sync.reduces[reduction++]);
        }
      }
    };
    for (; next_ < uses_.size() && uses_[next_].first.slot == slot_; ++next_) {
      const model::ParameterUse& use = uses_[next_];
      if (!use.gathered) continue;
      start_until(use.first.segment);
      compute_until(start_of(run, use.first.segment));
      late += clock_.wait_for(gathers_[next_]);
    }
    start_until(static_cast<std::int32_t>(run.segments.size()));
    compute_until(run.seconds);
    for (; reduction < sync.reduces.size(); ++reduction) reduce(op, sync.reduces[reduction]);
    gate_ = step_->reduce == Reduce::each_waiting && !op.last_of_rank && reduces_here;
    ++slot_;
    return late;
  }
  const OverlapClock& clock() const { return clock_; }
  GradientsReady ready() const {
    std::vector<std::pair<double, double>> copies;
    for (const auto& [reduction, seconds] : copies_) copies.emplace_back(clock_.end_of(reduction), seconds);
    return gradients_ready(clock_.now(), reduced_ ? clock_.end_of(*reduced_) : 0, std::move(copies));
  }

  // Returns stage and unit of each gather of the step.
  std::vector<std::pair<std::int32_t, std::int32_t>> gathers() const {
    std::vector<std::pair<std::int32_t, std::int32_t>> units;
    for (const model::ParameterUse& use : uses_)
      if (use.gathered) units.emplace_back(use.stage, use.unit);
    return units;
  }

 private:
  const Op& op(std::int32_t slot) const { return step_->table->ops[rank_->ops[static_cast<std::size_t>(slot)]]; }

  void collect() {
    uses_.clear();
    const auto stages_of = [this](std::int32_t slot) {
      const auto& here = step_->table->classes[op(slot).slot_class];
      return std::pair(here.f_stage, here.type == model::OpType::W ? -1 : here.b_stage);
    };
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(rank_->ops.size()); ++k) {
      const auto [forward, backward] = stages_of(k);
      for (const SlotSync::Use& use : step_->syncs[op(k).slot_class]->uses)
        model::add_use(uses_, {use.forward ? forward : backward, use.unit, {k, use.first}, {k, use.last}, use.seconds});
    }
    model::plan_gathers(uses_, step_->buffers, step_->reshard, stages_of);
  }

  // Gathers that get an initial buffer start with the step.
  void schedule() {
    gathers_.assign(uses_.size(), 0);
    starting_.clear();
    begun_ = 0;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (!uses_[i].gathered) continue;
      if (uses_[i].after.slot < 0)
        post(i);
      else
        starting_.push_back(i);
    }
    const auto after = [this](std::size_t i) { return uses_[i].after; };
    if (!std::ranges::is_sorted(starting_, {}, after)) std::ranges::stable_sort(starting_, {}, after);
  }

  void post(std::size_t use) { gathers_[use] = clock_.post(uses_[use].seconds); }

  void reduce(const Op& op, const SlotSync::Part& part) {
    reduced_ = clock_.post(step_->reduces ? part.seconds : part.local);
    if (part.copy > 0 && op.last_gradient) copies_.emplace_back(*reduced_, part.copy);
  }

  const StepRecurrence* step_ = nullptr;
  const model::ScheduleTable::Rank* rank_ = nullptr;
  OverlapClock clock_;
  std::int32_t slot_ = 0;  // the next one
  std::vector<model::ParameterUse> uses_;
  std::vector<std::size_t> gathers_;    // [use]: its number on the stream, once it is posted
  std::vector<std::size_t> starting_;   // uses whose gathers start in slots, in the order of their starts
  std::size_t begun_ = 0;               // of these
  std::size_t next_ = 0;                // use
  std::optional<std::size_t> reduced_;  // the last reduction
  bool gate_ = false;                   // the next slot waits for it
  std::vector<std::pair<std::size_t, double>> copies_;  // a gradient's reduction, seconds of its copy
};

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
    if (!clock_.idle() || !plain(op) || (reduces_each_ && step_->reduces_after(op))) return false;
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
      run_plain(run, sync, step_->reduces_after(op));
      return 0;
    }
    double late = std::exchange(gate_, false) ? clock_.wait_for(*reduced_) : 0;
    std::size_t next = 0;
    const bool reduces_here = step_->reduce == Reduce::once
                                  ? op.last_gradient
                                  : step_->reduce != Reduce::once_at_end && step_->reduces_after(op);
    const auto reduce_until = [&](std::int32_t segment) {  // those that the segments before it allow
      for (; reduces_here && next < sync.reduces.size(); ++next) {
        const SlotSync::Part& part = sync.reduces[next];
        if (part.segment < 0 || part.segment >= segment) break;
        compute_until(end_of(run, part.segment), sync);
        reduce(op, part);
      }
    };
    if (op.first_forward && step_->gathers)
      for (const SlotSync::Part& part : sync.gathers) {
        reduce_until(part.segment);
        if (part.segment >= 0) compute_until(start_of(run, part.segment), sync);
        late += clock_.wait_for(gathered_++);
      }
    reduce_until(static_cast<std::int32_t>(run.segments.size()));
    compute_until(run.seconds, sync);
    for (; reduces_here && next < sync.reduces.size(); ++next) reduce(op, sync.reduces[next]);
    gate_ =
        step_->reduce == Reduce::each_waiting && reduces_here && reduced_ && !op.last_of_rank && !sync.reduces.empty();
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
  void run_plain(const TemplateRun& run, const SlotSync& sync, bool reduces_here) {
    const double seconds = step_->reduces ? sync.reduce_seconds : sync.local_seconds;
    if (step_->reduce == Reduce::each && reduces_here && seconds > 0) {
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
