#include "sim/step/step_end.h"

#include <algorithm>

namespace plumbline::sim {

namespace {

// Returns when the copies to the host end. They run one after the other, each once its gradient is reduced.
double copied(const GradientsReady& rank) {
  double end = 0;
  for (std::size_t i = 0; i < rank.on_host.size(); ++i) end = std::max(end, rank.on_host[i]) + rank.host_copies[i];
  return end;
}

}  // namespace

GradientsReady gradients_ready(double end, double reduced, std::vector<std::pair<double, double>> copies) {
  std::ranges::sort(copies);
  GradientsReady ready{end, reduced, {}, {}};
  for (const auto& [at, seconds] : copies) {
    ready.on_host.push_back(at);
    ready.host_copies.push_back(seconds);
  }
  return ready;
}

std::vector<std::vector<std::int32_t>> stages_of(const model::Schedule& schedule) {
  std::vector<std::vector<std::int32_t>> stages(schedule.ranks.size());
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
    for (std::int32_t direction = 0; direction < schedule.directions; ++direction) {
      auto& held = stages[static_cast<std::size_t>(schedule.rank_of(direction, stage))];
      if (std::ranges::find(held, stage) == held.end()) held.push_back(stage);
    }
  return stages;
}

void RankWork::add(const OptimizerTiming& stage, bool gathers) {
  check += stage.check;
  agree = std::max(agree, stage.agree);
  update += stage.update;
  host_update += stage.host_update;
  to_device += stage.to_device;
  step = std::max(step, stage.step);
  for (const UnitTiming& unit : stage.units) gather += gathers ? unit.gather : 0;
}

RankWork RankWork::slower(double factor) const {
  RankWork work = *this;
  work.check *= factor;
  work.update += (factor - 1) * (update - host_update);
  return work;
}

std::vector<RankWork> rank_works(const model::Schedule& schedule, const std::vector<OptimizerTiming>& stages,
                                 bool gathers) {
  const auto held = stages_of(schedule);
  std::vector<RankWork> works(held.size());
  for (std::size_t rank = 0; rank < held.size(); ++rank)
    for (const std::int32_t stage : held[rank]) works[rank].add(stages[static_cast<std::size_t>(stage)], gathers);
  return works;
}

double step_end(const std::vector<RankWork>& works, const std::vector<GradientsReady>& ranks, const StepPart& part) {
  const auto report = [&part](std::size_t rank, const char* name, double start, double end) {
    if (part) part(static_cast<std::int32_t>(rank), name, start, end);
  };
  std::vector<double> checked;
  double all = 0, agree = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const double start = std::max(ranks[rank].end, ranks[rank].reduced);
    checked.push_back(start + works[rank].check);
    report(rank, "check gradients", start, checked.back());
    all = std::max(all, checked.back());
    agree = std::max(agree, works[rank].agree);
  }
  double end = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const double start = std::max(agree > 0 ? all + agree : checked[rank], copied(ranks[rank]));
    const double updated = start + works[rank].update;
    const double back = updated + works[rank].to_device;
    report(rank, "adamw", start, updated);
    report(rank, "parameters from host", updated, back);
    const double gathered = back + works[rank].gather;
    report(rank, "gather parameters", back, gathered);
    if (works[rank].step > 0) report(rank, "host", gathered, gathered + works[rank].step);
    end = std::max(end, gathered + works[rank].step);
  }
  return end;
}

StepTail step_tail(std::vector<RankWork> works, std::vector<GradientsReady> ranks) {
  double end = step_end(works, ranks, {});
  const auto earlier = [&] {
    const double before = std::exchange(end, step_end(works, ranks, {}));
    return before - end;
  };
  StepTail tail;
  for (RankWork& work : works) work.step = 0;
  tail.step = earlier();
  for (RankWork& work : works) work.gather = 0;
  tail.gather = earlier();
  for (RankWork& work : works) {
    work.to_device = 0;
    work.update -= std::exchange(work.host_update, 0);
  }
  for (GradientsReady& rank : ranks) rank.on_host.clear();
  tail.host = earlier();
  for (RankWork& work : works) work.agree = 0;
  tail.agree = earlier();
  for (GradientsReady& rank : ranks) rank.reduced = 0;
  tail.reduce = earlier();
  return tail;
}

}  // namespace plumbline::sim
