#include "sim/search/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "model/base/integers.h"
#include "model/plan/rollout.h"
#include "model/plan/software.h"
#include "sim/predict/stage_balance.h"
#include "topologies/fabric.h"

namespace plumbline::sim {

namespace {

// A schedule that every shape fits: a layout that fails with it fails because of the degrees.
constexpr const char* any_schedule = "gpipe";

// Returns why a search leaves a plan out: it finds plans that do the work of the batch and no more.
std::optional<model::Error> refusal_of(const model::Plan& plan, const model::Architecture& architecture) {
  const auto layout = model::make_layout(plan, architecture);
  if (!layout) return layout.error();
  const auto warnings = model::shortfalls(plan, *layout);
  if (warnings.empty()) return std::nullopt;
  return model::Error{model::ErrorKind::infeasible, warnings.front(), "", 0, "", "`simulate` predicts such a plan"};
}

// Returns why degrees ask for another cluster than the one in question: nodes that hold their tensor and expert groups
// whole ask for more than an eighth more nodes (64 of 72 GPUs of a rack do not), which somebody would have to pay for.
std::optional<model::Error> refusal_of_idle_gpus(const model::Plan& plan, const Inputs& inputs) {
  if (!inputs.fabric || plan.cluster.domain_gpus) return std::nullopt;
  const std::int64_t node = inputs.fabric->gpus_per_node;
  const std::int64_t used = topologies::used_nodes(*inputs.fabric, plan).gpus_per_node;
  const std::int64_t full = model::ceil_div(plan.cluster.gpus, node);
  const std::int64_t taken = model::ceil_div(plan.cluster.gpus, used);
  if (taken - full <= full / 8) return std::nullopt;
  return model::Error{.message = fmt::format("{} of the {} GPUs of a node would be used, and {} nodes instead of {}",
                                             used, node, taken, full),
                      .key = "parallelism.expert",
                      .hint = fmt::format("--set cluster.domain_gpus={} takes so many nodes", used)};
}

// Returns the plan without sharding and the rules of its software, which hold for whole plans only.
model::Plan outline_of(model::Plan plan) {
  plan.parallelism.zero_stage = plan.parallelism.shard_group = 0;
  plan.software.erase(std::string(model::rules_key));
  return plan;
}

// Returns whether a pipeline has one replica, which leaves ZeRO nothing to shard unless a schedule keeps stages twice.
bool has_one_replica(const model::Plan& plan, const model::Architecture& architecture) {
  const auto& degrees = plan.parallelism;
  const std::int64_t ranks = plan.cluster.gpus / degrees.pipeline;
  return ranks == degrees.tensor &&
         (architecture.experts.routed_experts == 0 || ranks == degrees.expert * degrees.expert_tensor);
}

std::int64_t half(std::int64_t layers, std::int64_t stages) {
  const std::int64_t longest = (layers + stages - 1) / stages;
  return longest < 2 ? 0 : (longest + 1) / 2;
}

}  // namespace

Space::Space(const Inputs& inputs, Breadth breadth) : inputs_(inputs), choices_(inputs, breadth), base_(inputs.plan) {
  base_.search = {};
  std::erase_if(base_.places,
                [](const auto& place) { return place.first != "routing.imbalance"; });  // forced if stated
  if (choices_.recompute.empty()) {
    refuse(Check::degrees, {.message = "nothing that it names is computed again here", .key = "search.recompute"});
    return;
  }
  if (base_.recompute.policy == "selective" && base_.recompute.operators.empty()) base_.recompute.policy = "none";
  model::Plan plan = base_;
  plan.schedule.layers_per_stage = {};
  for (const std::int64_t tensor : choices_.tensor)
    for (const bool sequence : choices_.sequence(tensor)) {
      plan.parallelism.tensor = tensor;
      plan.parallelism.sequence = sequence;
      add_degrees(plan, 0);
    }
}

void Space::add_degrees(model::Plan plan, std::size_t next) {
  if (next == choices_.degrees.size()) return add_branches(std::move(plan));
  for (const std::int64_t value : choices_.degrees[next].values) {
    plan.parallelism.*choices_.degrees[next].degree = value;
    add_degrees(plan, next + 1);
  }
}

// Adds a branch for every micro-batch size.
void Space::add_branches(model::Plan plan) {
  const auto& degrees = plan.parallelism;
  if (plan.cluster.gpus % (degrees.tensor * degrees.context) != 0) {
    const std::string product = fmt::format("tensor * context = {} * {}", degrees.tensor, degrees.context);
    refuse(Check::degrees, {.message = fmt::format("{} GPUs are not a multiple of {}", plan.cluster.gpus, product),
                            .key = "cluster.gpus",
                            .hint = fmt::format("use a multiple of {}", degrees.tensor * degrees.context)});
    return;
  }
  if (const auto error = refusal_of_idle_gpus(plan, inputs_)) return refuse(Check::degrees, *error);
  for (const std::int64_t size : choices_.micro_batch_size) {
    plan.batch.micro_batch_size = size;
    plan.parallelism.pipeline = base_.parallelism.pipeline;
    Branch branch{degrees, size, 0, {}, choices_.communication_sms(degrees.expert)};
    for (const std::int64_t ranks : choices_.pipeline(degrees.tensor, degrees.context)) {
      plan.parallelism.pipeline = ranks;
      plan.batch.global_batch_size = static_cast<std::int64_t>(model::step_sequences(plan));
      model::Plan probe = outline_of(plan);
      probe.schedule.kind = any_schedule;
      probe.schedule.virtual_stages = 1;
      if (const auto error = refusal_of(probe, inputs_.architecture)) {
        refuse(Check::degrees, *error);
        continue;
      }
      const auto kinds = choices_.schedule(ranks, degrees.expert);
      if (kinds.empty())
        refuse(Check::schedule, {.message = "the software has none for these degrees", .key = "schedule.kind"});
      for (const std::string& kind : kinds) {
        std::vector<std::int64_t> stages;  // schedules with two chunks per rank take 1 for 2
        for (const std::int64_t chunks : choices_.virtual_stages(ranks)) {
          plan.schedule.kind = kind;
          plan.schedule.virtual_stages = chunks;
          const Pipeline* found = pipeline(plan);
          if (found == nullptr || std::ranges::find(stages, found->stages) != stages.end()) continue;
          stages.push_back(found->stages);
          std::int64_t& least = branch.global_batch_size;
          least =
              branch.pipelines.empty() ? plan.batch.global_batch_size : std::min(least, plan.batch.global_batch_size);
          branch.pipelines.push_back(found);
        }
      }
    }
    if (branch.pipelines.empty()) continue;
    if (branch.communication_sms.empty())
      refuse(Check::communication,
             {.message = "the GPU has no SMs left for anything else", .key = "search.communication_sms"});
    else
      branches_.push_back(std::move(branch));
  }
}

// Returns nullptr where no pipeline is valid. Pipelines are shared by schedule, ranks, micro-batches and whether there
// are replicas, with rules of software by whether experts lie on several ranks, and with ZeRO shard groups by all
// degrees.
const Pipeline* Space::pipeline(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  const auto kind = model::schedule_kind(plan);
  const auto kinds = model::schedule_kinds();
  const std::int64_t replicas = plan.cluster.gpus / (degrees.tensor * degrees.context * degrees.pipeline);
  std::vector<std::int64_t> key = {std::ranges::find(kinds, *kind) - kinds.begin(), plan.schedule.virtual_stages,
                                   degrees.pipeline,
                                   plan.batch.global_batch_size / (replicas * plan.batch.micro_batch_size),
                                   has_one_replica(plan, inputs_.architecture)};
  if (degrees.shard_group > 0)
    for (const model::Degree& degree : model::parallel_degrees) key.push_back(degrees.*degree.value);
  if (plan.software.contains(std::string(model::rules_key))) key.push_back(degrees.expert > 1);
  const auto [entry, fresh] = known_.try_emplace(std::move(key), nullptr);
  if (!fresh) return entry->second;
  const model::Plan probe = outline_of(plan);
  const auto layout = model::make_layout(probe, inputs_.architecture);
  if (!layout) {
    refuse(Check::schedule, layout.error());
    return nullptr;
  }
  Pipeline found{*kind,
                 layout->schedule,
                 plan.schedule.virtual_stages,
                 layout->stages,
                 {},
                 choices_.splits(layout->stages, [&] { return costs(probe, *layout); }),
                 half(inputs_.architecture.layers, layout->stages)};
  if (!keep_valid(plan, found)) return nullptr;
  return entry->second = &pipelines_.emplace_back(std::move(found));
}

void Space::refuse(Check check, const model::Error& error) {
  if (!branches_.empty() || check < furthest_) return;
  if (check > furthest_) refused_.clear();
  furthest_ = check;
  ++refused_[model::to_string({.message = error.message, .key = error.key, .hint = error.hint})];
}

model::Error Space::refusal() const {
  const auto most = std::ranges::max_element(refused_, {}, [](const auto& refused) { return refused.second; });
  return {model::ErrorKind::infeasible,
          "no combination of the values that were tried is a plan; what refuses most of them: " + most->first};
}

bool Space::keep_valid(model::Plan plan, Pipeline& pipeline) {
  choices_.recompute.front().apply(plan, pipeline.half_of_a_stage);
  const auto divide = [&plan](const Split& split) {
    plan.schedule.layers_per_stage = {.counts = split.layers, .even = split.layers.empty()};
  };
  const std::int64_t group = std::exchange(plan.parallelism.shard_group, 0);
  plan.parallelism.zero_stage = 0;
  if (pipeline.splits.empty())
    refuse(Check::split, {.message = fmt::format("none of them divides {} layers over {} stages",
                                                 inputs_.architecture.layers, pipeline.stages),
                          .key = "search.split"});
  std::erase_if(pipeline.splits, [&](const Split& split) {
    divide(split);
    const auto error = refusal_of(plan, inputs_.architecture);
    if (error) refuse(Check::split, *error);
    return error.has_value();
  });
  if (pipeline.splits.empty()) return false;
  divide(pipeline.splits.front());
  plan.parallelism.shard_group = group;
  pipeline.zero_stages = zero_stages(plan, pipeline.kind->outline(pipeline.shape).directions);
  if (pipeline.zero_stages.empty()) return false;
  plan.parallelism.zero_stage = pipeline.zero_stages.front();
  plan.recompute.policy = "full";
  const auto error = refusal_of(plan, inputs_.architecture);
  pipeline.whole_layers = !error;
  if (std::ranges::any_of(choices_.recompute, [&](const auto& one) { return allows(pipeline, one); })) return true;
  const model::Error no_half = {.message = "stages of one layer have no half", .key = "search.recompute"};
  refuse(Check::recomputation, error.value_or(no_half));
  return false;
}

const model::Result<model::SplitCosts>& Space::costs(const model::Plan& plan, const model::Layout& layout) {
  std::vector<std::int64_t> key = {plan.parallelism.sequence, plan.batch.micro_batch_size, layout.embedding_with_head};
  for (const model::Degree& degree : model::parallel_degrees)
    if (degree.value != &model::Parallelism::pipeline) key.push_back(plan.parallelism.*degree.value);
  const auto known = costs_.find(key);
  return known != costs_.end() ? known->second
                               : costs_.emplace(std::move(key), split_costs(plan, inputs_)).first->second;
}

std::vector<std::int64_t> Space::zero_stages(model::Plan plan, std::int32_t directions) {
  const bool shards = directions > 1 || !has_one_replica(plan, inputs_.architecture);
  std::vector<std::int64_t> allowed;
  const auto allows = [&](std::int64_t stage) {
    plan.parallelism.zero_stage = stage;
    const auto error = refusal_of(plan, inputs_.architecture);
    if (error) refuse(Check::sharding, *error);
    return !error;
  };
  // A stage that the software refuses with this pipeline stands for the next one that it runs, as in Choices.
  for (std::int64_t stage : choices_.zero_stage) {
    constexpr std::int64_t last = 3;
    const bool searched = inputs_.plan.search.zero_stage.empty();
    while (searched && stage < last && !allows(stage)) ++stage;
    if (!shards && !allowed.empty()) break;  // one stands for all
    if (allows(stage) && std::ranges::find(allowed, stage) == allowed.end()) allowed.push_back(stage);
  }
  return allowed;
}

std::uint64_t Space::tunings(const Branch& branch, const Pipeline& pipeline) const {
  const auto allowed =
      std::ranges::count_if(choices_.recompute, [&](const Recomputation& one) { return allows(pipeline, one); });
  return static_cast<std::uint64_t>(allowed) * branch.communication_sms.size();
}

std::uint64_t Space::size(const Branch& branch) const {
  std::uint64_t plans = 0;
  for (const Pipeline* pipeline : branch.pipelines)
    plans += tunings(branch, *pipeline) * pipeline->zero_stages.size() * pipeline->splits.size();
  return plans;
}

std::uint64_t Space::size() const {
  std::uint64_t plans = 0;
  for (const Branch& branch : branches_) plans += size(branch);
  return plans;
}

model::Plan Space::plan(const Branch& branch) const {
  model::Plan plan = base_;
  plan.parallelism = branch.parallelism;
  plan.batch.micro_batch_size = branch.micro_batch_size;
  plan.batch.global_batch_size = branch.global_batch_size;
  return plan;
}

void Space::apply(const Point& point, model::Plan& plan) {
  plan.parallelism.pipeline = point.pipeline->shape.ranks;
  plan.batch.global_batch_size = static_cast<std::int64_t>(model::step_sequences(plan));
  plan.schedule.kind = point.pipeline->kind->name();
  plan.schedule.virtual_stages = point.pipeline->virtual_stages;
  plan.parallelism.zero_stage = point.zero_stage;
  plan.schedule.layers_per_stage = {.counts = point.split->layers, .even = point.split->layers.empty()};
  point.recompute->apply(plan, point.pipeline->half_of_a_stage);
  plan.overlap.communication_sms = point.communication_sms;
}

}  // namespace plumbline::sim
