#include "sim/search/detail/incumbents.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "model/plan/plan_fields.h"
#include "model/schedule/schedule.h"

namespace plumbline::sim {

Shape shape_of(const model::Plan& plan) {
  Shape shape;
  model::visit_parallelism(plan.parallelism, [&]<class Value>(const char*, const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) shape.push_back(value);
  });
  const auto kinds = model::schedule_kinds();
  const auto kind = std::ranges::find(kinds, plan.schedule.kind, [](const auto* one) { return one->name(); });
  shape.push_back(kind - kinds.begin());
  return shape;
}

bool Incumbents::add(const Shape& shape, const Candidate& candidate) {
  std::shared_ptr<const Candidate>& known = known_[shape];
  if (known != nullptr && candidate.estimate.step.time_s >= known->estimate.step.time_s) return false;
  known = std::make_shared<const Candidate>(candidate);
  if (known_.size() < top_) return true;
  std::vector<double> steps;
  for (const auto& [key, best] : known_) steps.push_back(best->estimate.step.time_s);
  const auto last = steps.begin() + static_cast<std::ptrdiff_t>(top_) - 1;
  std::ranges::nth_element(steps, last);
  limit_ = *last;
  return true;
}

double Incumbents::limit(const Shape& shape) const {
  const auto own = known_.find(shape);
  return own == known_.end() ? limit_ : std::min(limit_, own->second->estimate.step.time_s);
}

std::vector<Candidate> Incumbents::ranked(std::size_t most) const {
  std::vector<Candidate> all;
  for (const auto& [shape, candidate] : known_) all.push_back(*candidate);
  std::ranges::stable_sort(all, {}, [](const Candidate& candidate) { return candidate.estimate.step.time_s; });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace plumbline::sim
