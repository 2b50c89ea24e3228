#include "sim/search/leaders.h"

#include <algorithm>
#include <utility>

#include "model/schedule/schedule.h"

namespace plumbline::sim {

Shape shape_of(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  const auto kinds = model::schedule_kinds();
  const auto kind = std::ranges::find(kinds, plan.schedule.kind, [](const auto* one) { return one->name(); });
  return {degrees.tensor, degrees.sequence,      degrees.context,    degrees.pipeline,
          degrees.expert, degrees.expert_tensor, degrees.zero_stage, kind - kinds.begin()};
}

void Leaders::offer(const Shape& shape, const Candidate& candidate) {
  const auto [entry, fresh] = known_.try_emplace(shape, candidate);
  if (!fresh && candidate.estimate.step.time_s >= entry->second.estimate.step.time_s) return;
  if (!fresh) entry->second = candidate;
  if (known_.size() < top_) return;
  std::vector<double> steps;
  for (const auto& [key, best] : known_) steps.push_back(best.estimate.step.time_s);
  const auto last = steps.begin() + static_cast<std::ptrdiff_t>(top_) - 1;
  std::ranges::nth_element(steps, last);
  limit_ = *last;
}

void Leaders::offer(const Leaders& other) {
  for (const auto& [shape, candidate] : other.known_) offer(shape, candidate);
}

double Leaders::limit(const Shape& shape) const {
  const auto own = known_.find(shape);
  return own == known_.end() ? limit_ : std::min(limit_, own->second.estimate.step.time_s);
}

double Leaders::best() const {
  double best = 0;
  for (const auto& [shape, candidate] : known_)
    if (best == 0 || candidate.estimate.step.time_s < best) best = candidate.estimate.step.time_s;
  return best;
}

std::vector<Candidate> Leaders::ranked(std::size_t most) const {
  std::vector<Candidate> all;
  for (const auto& [shape, candidate] : known_) all.push_back(candidate);
  std::ranges::stable_sort(all, {}, [](const Candidate& candidate) { return candidate.estimate.step.time_s; });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace plumbline::sim
