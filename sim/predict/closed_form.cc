#include "sim/predict/closed_form.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plumbline::sim {

namespace {

using Kind = model::Synchronisation::Kind;

class Walker {
 public:
  Walker(const model::StepProgram& program, std::size_t rank, const std::vector<OptimizerTiming>& timings, bool reduces)
      : all_(program.synchronisations[rank]), timings_(timings), reduces_(reduces), ends_(all_.size(), 0) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      starts_[{all_[i].after.slot, all_[i].after.segment}].push_back(i);
      if (all_[i].before.slot >= 0) gates_[{all_[i].before.slot, all_[i].before.segment}].push_back(i);
    }
    ended(-1, -1, 0);
  }

  void ended(std::int32_t slot, std::int32_t segment, double now) {
    const auto found = starts_.find({slot, segment});
    if (found == starts_.end()) return;
    for (const std::size_t i : found->second) {
      const bool reduce = all_[i].kind == Kind::reduce;
      if (reduce && !reduces_) continue;
      free_ = std::max(free_, now) + (reduce ? unit(i).reduce : unit(i).gather);
      ends_[i] = free_;
      if (reduce) reduced_ = free_;
    }
  }

  double gate(std::int32_t slot, std::int32_t segment) const {
    const auto found = gates_.find({slot, segment});
    double until = 0;
    if (found != gates_.end())
      for (const std::size_t i : found->second) until = std::max(until, ends_[i]);
    return until;
  }

  GradientsReady ready(double end) const {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> last;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].kind == Kind::reduce) last[{all_[i].stage, all_[i].unit}] = i;
    std::vector<std::pair<double, double>> copies;
    for (const auto& [key, i] : last)
      if (unit(i).copy > 0) copies.emplace_back(reduces_ ? ends_[i] : end, unit(i).copy);
    return gradients_ready(end, reduced_, std::move(copies));
  }

 private:
  const UnitTiming& unit(std::size_t i) const {
    return timings_[static_cast<std::size_t>(all_[i].stage)].units[static_cast<std::size_t>(all_[i].unit)];
  }

  const std::vector<model::Synchronisation>& all_;
  const std::vector<OptimizerTiming>& timings_;
  bool reduces_;
  std::vector<double> ends_;  // per synchronisation, once it is known
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::size_t>> starts_, gates_;
  double free_ = 0, reduced_ = 0;
};

}  // namespace

TemplateCosts::TemplateCosts(const model::StepProgram& program, const std::vector<TemplateRun>& runs,
                             const std::array<double, 5>& waits, double hop)
    : ChunkCosts(hop), kinds_{0}, count_(program.stage_kinds.size() + 1) {
  for (const model::Stage& stage : program.stages) kinds_.push_back(static_cast<std::size_t>(stage.kind) + 1);
  seconds_.assign(waits.size() * count_ * count_, 0);
  for (std::size_t rank = 0; rank < program.slot_templates.size(); ++rank) {
    for (std::size_t i = 0; i < program.slot_templates[rank].size(); ++i) {
      const model::ScheduleOp& op = program.schedule.ranks[rank][i];
      seconds_[index(op.type, op.f_stage, op.b_stage)] =
          runs[program.slot_templates[rank][i]].seconds + waits[static_cast<std::size_t>(op.type)];
    }
  }
}

std::size_t TemplateCosts::index(model::OpType type, std::int32_t f_stage, std::int32_t b_stage) const {
  const std::size_t f = kinds_[static_cast<std::size_t>(f_stage + 1)],
                    b = kinds_[static_cast<std::size_t>(b_stage + 1)];
  return (static_cast<std::size_t>(type) * count_ + f) * count_ + b;
}

double TemplateCosts::of(const model::ScheduleOp& op) const { return seconds_[index(op.type, op.f_stage, op.b_stage)]; }

RankWalk walk(const model::StepProgram& program, std::size_t rank, const std::vector<TemplateRun>& runs,
              const std::vector<OptimizerTiming>& timings, const std::vector<double>& starts, bool reduces) {
  Walker walker(program, rank, timings, reduces);
  RankWalk result;
  double now = 0;
  for (std::size_t op = 0; op < program.slot_templates[rank].size(); ++op) {
    const TemplateRun& run = runs[program.slot_templates[rank][op]];
    const auto slot = static_cast<std::int32_t>(op);
    const double begin = starts.empty() ? now : std::max(now, starts[op]);
    double late = std::max(0.0, walker.gate(slot, -1) - begin);
    for (std::size_t s = 0; s < run.segments.size(); ++s) {
      const auto segment = static_cast<std::int32_t>(s);
      const double start = begin + late + to_seconds(run.segments[s].start);
      late += std::max(0.0, walker.gate(slot, segment) - start);
      walker.ended(slot, segment, begin + late + to_seconds(run.segments[s].end));
    }
    now = begin + late + run.seconds;
    walker.ended(slot, -1, now);
    result.gather_wait += late;
    result.slot_seconds.push_back(run.seconds + late);
    result.slot_waits.push_back(late);
  }
  result.ready = walker.ready(now);
  return result;
}

}  // namespace plumbline::sim
