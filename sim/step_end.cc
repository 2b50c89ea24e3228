#include "sim/step_end.h"

#include <algorithm>

namespace plumbline::sim {

namespace {

struct RankWork {  // of all stages of a rank, s
  double check = 0, agree = 0, update = 0, to_device = 0, gather = 0;
};

RankWork work_of(const std::vector<std::int32_t>& stages, const std::vector<OptimizerTiming>& timings, bool gathers) {
  RankWork work;
  for (const std::int32_t stage : stages) {
    const OptimizerTiming& timing = timings[static_cast<std::size_t>(stage)];
    work.check += timing.check;
    work.agree = std::max(work.agree, timing.agree);
    work.update += timing.update;
    work.to_device += timing.to_device;
    for (const UnitTiming& unit : timing.units) work.gather += gathers ? unit.gather : 0;
  }
  return work;
}

// Copies to the host go one after the other, each once its gradient is reduced.
double copied(const GradientsReady& rank) {
  double end = 0;
  for (std::size_t i = 0; i < rank.on_host.size(); ++i) end = std::max(end, rank.on_host[i]) + rank.host_copies[i];
  return end;
}

}  // namespace

std::vector<std::vector<std::int32_t>> stages_of(const model::Schedule& schedule) {
  std::vector<std::vector<std::int32_t>> stages(schedule.ranks.size());
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
    for (std::int32_t direction = 0; direction < schedule.directions; ++direction) {
      auto& held = stages[static_cast<std::size_t>(schedule.rank_of(direction, stage))];
      if (std::ranges::find(held, stage) == held.end()) held.push_back(stage);
    }
  return stages;
}

double step_end(const model::Schedule& schedule, const std::vector<OptimizerTiming>& stages,
                const std::vector<GradientsReady>& ranks, bool gather_after_update, const StepPart& part) {
  const auto held = stages_of(schedule);
  std::vector<RankWork> works;
  std::vector<double> checked;
  double all = 0, agree = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    works.push_back(work_of(held[rank], stages, gather_after_update));
    const double start = std::max(ranks[rank].end, ranks[rank].reduced);
    checked.push_back(start + works.back().check);
    part(static_cast<std::int32_t>(rank), "check gradients", start, checked.back());
    all = std::max(all, checked.back());
    agree = std::max(agree, works.back().agree);
  }
  double end = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto r = static_cast<std::int32_t>(rank);
    const double start = std::max(agree > 0 ? all + agree : checked[rank], copied(ranks[rank]));
    const double updated = start + works[rank].update;
    const double back = updated + works[rank].to_device;
    part(r, "adamw", start, updated);
    part(r, "parameters from host", updated, back);
    part(r, "gather parameters", back, back + works[rank].gather);
    end = std::max(end, back + works[rank].gather);
  }
  return end;
}

}  // namespace plumbline::sim
