#include "sim/search/family_search.h"

#include <algorithm>
#include <limits>

namespace plumbline::sim {

namespace {

// Bounds and what they bound add the same numbers in different orders.
constexpr double rounding = 1e-9;
constexpr double never = std::numeric_limits<double>::infinity();

bool above(double bound, double limit) { return bound * (1 - rounding) > limit; }

Inputs with_memo(const Inputs& given) {
  Inputs inputs = given;
  if (!inputs.routing) inputs.routing = std::make_shared<RoutingMemo>();
  return inputs;
}

Inputs without_wiring(Inputs inputs) {
  inputs.fabric.reset();
  inputs.contention.reset();
  return inputs;
}

// The whole model as one stage.
BlockList whole_model(const model::Plan& plan, const model::Architecture& architecture) {
  model::Plan one = plan;
  one.schedule.layers_per_stage.clear();
  return stage_lists(one, architecture, 1).kinds.front();
}

// Micro-batches that a rank works through as if it held the whole model, on average: micro-batches / pipeline.
double passes(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  return static_cast<double>(plan.batch.global_batch_size * degrees.tensor * degrees.context) /
         static_cast<double>(plan.batch.micro_batch_size * plan.cluster.gpus);
}

}  // namespace

SearchScope::SearchScope(const Inputs& given, const SearchOptions& wanted)
    : inputs(with_memo(given)), free(without_wiring(inputs)), options(wanted), space(inputs) {}

SearchWorker::SearchWorker(SearchScope& scope)
    : scope_(scope),
      evaluator_(scope.inputs.architecture, scope.inputs.cluster, scope.inputs.profile, scope.inputs.fabric,
                 scope.inputs.routing),
      floor_(scope.inputs) {}

// Those of plans that differ in nothing else of what costs look at where links do not count.
model::Result<const CostModels*> SearchWorker::costs(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  const std::vector<std::int64_t> key = {degrees.expert, degrees.expert_tensor, plan.overlap.communication_sms};
  auto known = costs_.find(key);
  if (known == costs_.end()) {
    const auto layout = model::make_layout(plan, scope_.free.architecture);
    if (!layout) return tl::unexpected(layout.error());
    Inputs inputs = scope_.free;
    inputs.plan = plan;
    auto made = cost_models(inputs, *layout);
    if (!made) return tl::unexpected(made.error());
    known = costs_.emplace(key, std::move(*made)).first;
  }
  return &known->second;
}

model::Result<OpenFamily> SearchWorker::open(const Family& family, Tally& tally) {
  const Space& space = scope_.space;
  const double capacity = scope_.inputs.cluster.device.memory.value();
  OpenFamily open{&family, {}, 0, 0};
  model::Plan plan = space.plan(family);
  const Recomputation& any = space.choices().recompute.front();
  for (const Pipeline* pipeline : family.pipelines)
    for (const std::int64_t zero : pipeline->zero_stages) {
      const std::uint64_t tunings = space.tunings(family, *pipeline);
      Space::apply({pipeline, zero, &pipeline->splits.front(), &any, family.communication_sms.front()}, plan);
      const std::vector<double> floors = floor_.bytes(plan, *pipeline);
      for (std::size_t s = 0; s < floors.size(); ++s) {
        const Split& split = pipeline->splits[s];
        if (above(floors[s], capacity)) {
          tally.remove(Rule::states, tunings, floors[s], [&]() -> const model::Plan& {
            Space::apply({pipeline, zero, &split, &any, family.communication_sms.front()}, plan);
            return plan;
          });
          continue;
        }
        open.arrangements.push_back({pipeline, zero, &split});
        open.plans += tunings;
      }
    }
  if (open.plans == 0 || scope_.options.exhaustive || plan.offload.activations > 0) return open;
  // Recomputation only adds operators, so that without it all streams have less to do.
  const Arrangement& first = open.arrangements.front();
  Space::apply({first.pipeline, first.zero_stage, first.split, &any, 0}, plan);
  plan.recompute.policy = "none";
  FamilyBlocks blocks(scope_.free, plan);
  open.bound = never;
  for (const std::int64_t sms : family.communication_sms) {
    plan.overlap.communication_sms = sms;
    const auto found = costs(plan);
    if (!found) {
      if (found.error().kind == model::ErrorKind::input) return tl::unexpected(found.error());
      open.bound = 0;  // whoever looks at these plans will say why
      continue;
    }
    open.bound = std::min(
        open.bound, FamilyBounds(blocks, **found).family(whole_model(plan, scope_.free.architecture), passes(plan)));
  }
  return open;
}

// In the order of their bounds; those whose blocks alone are too slow are removed.
model::Result<std::vector<SearchWorker::Item>> SearchWorker::items(const OpenFamily& open,
                                                                   const Recomputation& recompute, model::Plan plan,
                                                                   Found& found, const Leaders& before) {
  const bool bounded = !scope_.options.exhaustive && plan.offload.activations == 0;
  const double limit = bounded ? before.limit() : never;
  std::vector<const Arrangement*> allowed;
  for (const Arrangement& one : open.arrangements)
    if (Space::allows(*one.pipeline, recompute)) allowed.push_back(&one);
  std::vector<Item> items;
  if (allowed.empty()) return items;
  const auto point = [&](const Arrangement& one, std::int64_t sms) {
    return Point{one.pipeline, one.zero_stage, one.split, &recompute, sms};
  };
  Space::apply(point(*allowed.front(), 0), plan);
  std::optional<FamilyBlocks> blocks;
  if (bounded) blocks.emplace(scope_.free, plan);
  std::map<std::pair<std::int64_t, std::string>, StageLists> lists;
  for (const std::int64_t sms : open.family->communication_sms) {
    Space::apply(point(*allowed.front(), sms), plan);
    const auto known = bounded ? costs(plan) : nullptr;
    if (!known && known.error().kind == model::ErrorKind::input) return tl::unexpected(known.error());
    const bool costed = known && *known != nullptr;
    std::optional<FamilyBounds> bounds;
    if (costed) bounds.emplace(*blocks, **known);
    const double whole = costed ? bounds->family(whole_model(plan, scope_.free.architecture), passes(plan)) : 0;
    if (above(whole, limit)) {
      found.tally.remove(Rule::family, allowed.size(), whole, [&]() -> const model::Plan& { return plan; });
      continue;
    }
    const Arrangement* last = nullptr;  // arrangements of one pipeline and split that differ in ZeRO follow each other
    std::map<std::pair<const Pipeline*, const Split*>, double> bound_of;
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      const Arrangement& one = *allowed[i];
      last = &one;
      double bound = 0;
      const ScheduleOutline* outline =
          costed ? scope_.outlines.find(*one.pipeline->kind, one.pipeline->shape) : nullptr;
      if (outline != nullptr) {
        const auto [entry, fresh] = bound_of.try_emplace({one.pipeline, one.split}, 0.0);
        if (fresh) {
          Space::apply(point(*last, sms), plan);
          const auto [list, unknown] = lists.try_emplace({one.pipeline->stages, one.split->word});
          if (unknown) list->second = stage_lists(plan, scope_.free.architecture, one.pipeline->stages);
          entry->second = bounds->schedule(*outline, list->second);
        }
        bound = entry->second;
      }
      if (above(bound, limit)) {
        found.tally.remove(Rule::schedule, 1, bound, [&]() -> const model::Plan& {
          Space::apply(point(one, sms), plan);
          return plan;
        });
        continue;
      }
      items.push_back({bound, point(one, sms), i});
    }
    if (scope_.stopped()) break;
  }
  std::ranges::stable_sort(items, {}, &Item::bound);
  return items;
}

model::Result<void> SearchWorker::evaluate(const Item& item, const model::Plan& plan, double limit, Found& found) {
  const auto estimate = evaluator_.evaluate_below(plan, limit * (1 + rounding));
  if (!estimate) {
    if (estimate.error().kind == model::ErrorKind::input) return tl::unexpected(estimate.error());
    found.tally.refuse(plan, to_string(estimate.error()));
    return {};
  }
  if (!*estimate) {
    found.tally.remove(Rule::busiest_rank, 1, limit, [&]() -> const model::Plan& { return plan; });
    return {};
  }
  static_cast<void>(item);
  found.tally.evaluate();
  found.leaders.offer(shape_of(plan), {plan, **estimate});
  return {};
}

model::Result<SearchWorker::Found> SearchWorker::decide(const OpenFamily& open, const Recomputation& recompute,
                                                        const Leaders& before) {
  Found found{before, {}, true};
  const double capacity = scope_.inputs.cluster.device.memory.value();
  const bool exhaustive = scope_.options.exhaustive;
  model::Plan plan = scope_.space.plan(*open.family);
  auto list = items(open, recompute, plan, found, before);
  if (!list) return tl::unexpected(list.error());
  std::map<std::size_t, model::Result<double>> peaks;  // of arrangements: SMs change nothing
  for (const Item& item : *list) {
    if (scope_.stopped()) {
      found.complete = false;
      return found;
    }
    Space::apply(item.point, plan);
    const double limit = exhaustive ? never : found.leaders.limit(shape_of(plan));
    const auto same = [&]() -> const model::Plan& { return plan; };
    if (!exhaustive && above(item.bound, found.leaders.limit())) {
      found.tally.remove(Rule::schedule, static_cast<std::uint64_t>(list->data() + list->size() - &item), item.bound, same);
      return found;
    }
    if (above(item.bound, limit)) {
      found.tally.remove(Rule::schedule, 1, item.bound, same);
      continue;
    }
    auto peak = peaks.find(item.arrangement);
    if (peak == peaks.end()) peak = peaks.emplace(item.arrangement, evaluator_.peak(plan)).first;
    if (!peak->second && peak->second.error().kind == model::ErrorKind::input)
      return tl::unexpected(peak->second.error());
    if (!peak->second)
      found.tally.refuse(plan, to_string(peak->second.error()));
    else if (*peak->second > capacity)
      found.tally.remove(Rule::memory, 1, *peak->second, same);
    else if (auto done = evaluate(item, plan, limit, found); !done)
      return tl::unexpected(done.error());
  }
  return found;
}

}  // namespace plumbline::sim
