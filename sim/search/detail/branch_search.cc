#include "sim/search/detail/branch_search.h"

#include <cmath>
#include <type_traits>

#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan_fields.h"
#include "model/program/program.h"
#include "sim/search/detail/branch_bounds.h"

namespace plumbline::sim {
namespace {

Inputs even_inputs(Inputs inputs) {
  add_memos(inputs);
  model::set_imbalance(inputs.plan, 0);
  return inputs;
}

Inputs without_wiring(Inputs inputs) {
  inputs.fabric.reset();
  inputs.contention.reset();
  return inputs;
}

// Returns how probable it is that a peak fits in a share of the GPU and on its host, by what is left between predicted
// and measured peaks.
double fit_probability(const Inputs& inputs, const Peak& peak, double share) {
  const model::Device& device = inputs.cluster.device;
  const double host = model::fits_on_host(peak.host_bytes, device.host_memory.value());
  const double margin = std::log(share * device.memory.value() / peak.least_bytes);
  if (!inputs.memory_left) return margin >= 0 ? host : 0;
  const Left& left = *inputs.memory_left;
  const double deviation = std::hypot(left.common, left.own), more = margin - left.location;
  if (deviation == 0) return more >= 0 ? host : 0;
  return host * std::erfc(-more / (deviation * std::sqrt(2.0))) / 2;
}

}  // namespace

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

SearchScope::SearchScope(const Inputs& given, const SearchOptions& wanted)
    : inputs(even_inputs(given)), free(without_wiring(inputs)), options(wanted), space(inputs, wanted.breadth) {}

bool SearchScope::fits_surely(const Peak& peak) const {
  const double least = inputs.plan.search.min_fit;
  return least <= 0 || fit_probability(inputs, peak, options.sure_share) >= least;
}

bool SearchScope::may_fit(const Peak& peak) const {
  return fit_probability(inputs, peak, 1) >= std::min(model::hardly_fits, inputs.plan.search.min_fit);
}

SearchWorker::SearchWorker(SearchScope& scope) : scope_(scope), predictor_(scope.inputs), floor_(scope.inputs) {}

// Without shared links, costs of a search's plans depend on the key's fields only.
model::Result<const CostModels*> SearchWorker::costs(const model::Plan& plan) {
  const model::RankGroup group = model::expert_group(plan.parallelism);
  const std::vector<std::int64_t> key = {group.ranks, group.stride, plan.overlap.communication_sms};
  const auto known = costs_.find(key);
  if (known != costs_.end()) return &known->second;
  const auto layout = model::make_layout(plan, scope_.free.architecture);
  if (!layout) return nullptr;
  Inputs inputs = scope_.free;
  inputs.plan = plan;
  auto made = cost_models(inputs, *layout);
  if (made) return &costs_.emplace(key, std::move(*made)).first->second;
  if (made.error().kind == model::ErrorKind::input) return tl::unexpected(made.error());
  return nullptr;
}

model::Result<OpenBranch> SearchWorker::open(const Branch& branch, Statistics& statistics) {
  const Space& space = scope_.space;
  const model::Device& device = scope_.inputs.cluster.device;
  const double capacity = device.memory.value();
  const double least_fit = std::min(model::hardly_fits, scope_.inputs.plan.search.min_fit);
  OpenBranch open{&branch, {}, 0};
  model::Plan plan = space.plan(branch);
  const Recomputation& any = space.choices().recompute.front();
  for (const Pipeline* pipeline : branch.pipelines)
    for (const std::int64_t zero : pipeline->zero_stages) {
      const auto apply = [&](const Split& split) {
        Space::apply({pipeline, zero, &split, &any, branch.communication_sms.front()}, plan);
      };
      apply(pipeline->splits.front());
      const std::vector<MemoryFloor::Least> floors = floor_.bytes(plan, *pipeline);
      for (std::size_t s = 0; s < floors.size(); ++s) {
        const Split& split = pipeline->splits[s];
        const bool on_gpu = !above(floors[s].gpu, capacity);
        if (on_gpu && model::fits_on_host(floors[s].host, device.host_memory.value()) >= least_fit) {
          open.pipeline_choices.push_back({pipeline, zero, &split});
          continue;
        }
        statistics.remove(on_gpu ? Rule::host : Rule::states, space.tunings(branch, *pipeline),
                          on_gpu ? floors[s].host : floors[s].gpu, [&]() -> const model::Plan& {
                            apply(split);
                            return plan;
                          });
      }
    }
  const auto found = TRY(bound(open));
  open.bound = found;
  return open;
}

// Recomputation only adds operators, so the bound without it holds for all.
model::Result<double> SearchWorker::bound(const OpenBranch& open) {
  if (open.pipeline_choices.empty() || !scope_.bounded()) return 0;
  const PipelineChoice& first = open.pipeline_choices.front();
  const Recomputation nothing{"none", "none", {}, {}, false};
  model::Plan plan = scope_.space.plan(*open.branch);
  Space::apply({first.pipeline, first.zero_stage, first.split, &nothing, 0}, plan);
  BranchBlocks blocks(scope_.free, plan);
  model::Plan fewest = plan;  // sequences
  fewest.batch.global_batch_size = open.branch->global_batch_size;
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t sms : open.branch->communication_sms) {
    plan.overlap.communication_sms = sms;
    const auto found = TRY(costs(plan));
    if (found == nullptr) return 0;  // their evaluation reports the reason
    least = std::min(least, BranchBounds(blocks, *found).branch(fewest));
  }
  return least;
}

}  // namespace plumbline::sim
