#include "sim/search/detail/branch_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan_fields.h"
#include "model/program/compile.h"
#include "model/program/program.h"
#include "sim/search/detail/branch_bounds.h"

namespace plumbline::sim {

namespace {

constexpr std::array<const char*, rules> names = {
    "memory: parameters, gradients and optimizer states alone exceed the GPU",
    "time: blocks with these degrees, spread evenly over all ranks, already take longer than the plans kept",
    "time: the schedule with these blocks takes longer than the plans kept, by a lower bound",
    gpu_rule,
    host_rule,
    "time: the busiest rank's slots or collectives take longer than the plans kept",
    "refused"};

void add_degree(std::vector<std::string>& words, const std::string& name, std::int64_t degree) {
  if (degree > 1) words.push_back(fmt::format("{} {}", name, degree));
}

std::string recompute_words(const model::Plan& plan) {
  const auto& recompute = plan.recompute;
  std::string text = "recompute " + recompute.policy;
  if (recompute.policy == "selective") text += fmt::format(" ({})", fmt::join(recompute.operators, ", "));
  if (recompute.policy != "none" && recompute.layers) text += fmt::format(" of {} layers per stage", *recompute.layers);
  return text;
}

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

bool on_memory(Rule rule) { return rule == Rule::states || rule == Rule::memory || rule == Rule::host; }

std::string describe(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  std::vector<std::string> words;
  for (const model::Degree& degree : model::parallel_degrees) {
    std::string name = degree.name;
    std::ranges::replace(name, '_', ' ');
    add_degree(words, name, degrees.*degree.value);
    if (degree.value == &model::Parallelism::tensor && degrees.sequence) words.emplace_back("sequence");
  }
  words.push_back(fmt::format("zero {}", degrees.zero_stage));
  words.push_back(fmt::format("micro-batch {}", plan.batch.micro_batch_size));
  words.push_back(plan.schedule.kind);
  add_degree(words, "virtual stages", plan.schedule.virtual_stages);
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (!layers.counts.empty()) words.push_back(fmt::format("layers {}", fmt::join(layers.counts, "-")));
  words.push_back(recompute_words(plan));
  if (plan.overlap.communication_sms > 0)
    words.push_back(fmt::format("{} communication SMs", plan.overlap.communication_sms));
  return fmt::format("{}", fmt::join(words, ", "));
}

Statistics Statistics::rest() const {
  Statistics rest;
  for (std::size_t rule = 0; rule < rules; ++rule) rest.by_rule[rule].measure = by_rule[rule].measure;
  return rest;
}

void Statistics::refuse(const model::Plan& plan, const std::string& why) {
  Closest& closest = by_rule[static_cast<std::size_t>(Rule::refused)];
  if (closest.plans++ == 0) closest.plan = fmt::format("{}: {}", describe(plan), why);
}

void Statistics::add(const Statistics& other) {
  evaluated += other.evaluated;
  for (std::size_t rule = 0; rule < rules; ++rule) {
    Closest& closest = by_rule[rule];
    const Closest& found = other.by_rule[rule];
    if (found.plans == 0) continue;
    if (closest.plans == 0 || found.measure < closest.measure) {
      closest.measure = found.measure;
      closest.plan = found.plan;
    }
    closest.plans += found.plans;
  }
}

std::uint64_t Statistics::decided() const {
  std::uint64_t plans = evaluated;
  for (const Closest& one : by_rule) plans += one.plans;
  return plans;
}

std::vector<Removed> Statistics::removed(const model::Device& device) const {
  std::vector<Removed> list;
  for (std::size_t i = 0; i < rules; ++i) {
    const Closest& one = by_rule[i];
    if (one.plans == 0) continue;
    const auto rule = static_cast<Rule>(i);
    std::string example = one.plan;
    const double capacity = (rule == Rule::host ? device.host_memory : device.memory).value();
    if (on_memory(rule))
      example = fmt::format("needs {:.1f} GB of {:.1f} GB: {}", one.measure / 1e9, capacity / 1e9, one.plan);
    else if (rule != Rule::refused)
      example = fmt::format("takes {:.4g} s or more: {}", one.measure, one.plan);
    list.push_back({names[i], one.plans, std::move(example)});
  }
  return list;
}

using model::BlockKind;

MemoryFloor::MemoryFloor(const Inputs& inputs)
    : inputs_(inputs), device_(model::with_allocator(inputs.cluster.device, inputs.profile)) {
  for (std::int64_t layer = 0; layer < inputs.architecture.layers; ++layer)
    layer_kinds_.push_back(model::layer_kind(inputs.architecture, layer));
}

// The parameters depend on the degrees that divide them. Tokens do not matter, so they are those of the first plan.
const model::Graph& MemoryFloor::graph(BlockKind kind, const model::Plan& plan, const model::Layout& layout) {
  std::vector<std::int64_t> key = model::parameter_degrees(plan.parallelism);
  key.insert(key.end(), {static_cast<std::int64_t>(kind), layout.embedding_with_head});
  const auto [entry, fresh] = graphs_.try_emplace(std::move(key));
  model::Graph& graph = entry->second;
  if (!fresh) return graph;
  model::RoutingSpread spread;
  spread.ranks_per_token = 1;  // affects tokens only
  graph = model::make_stage_block(kind, model::BlockPass::kept,
                                  model::plan_context(plan, inputs_.architecture, layout, spread));
  graph.operators.clear();
  std::erase_if(graph.tensors, [](const model::Tensor& tensor) {
    return tensor.shared || (tensor.role != model::Role::parameter && tensor.role != model::Role::gradient);
  });
  return graph;
}

MemoryFloor::Least MemoryFloor::block_bytes(BlockKind kind, const model::Plan& plan, const model::Layout& layout,
                                            States& states) {
  const auto [entry, fresh] = states.try_emplace(kind);
  Least& bytes = entry->second;
  if (!fresh) return bytes;
  const std::vector<model::Graph> blocks = {graph(kind, plan, layout)};
  const model::StageKind alone{{0}};
  const model::TrainingState state = model::training_state(plan, layout, blocks, {{&alone, nullptr}});
  for (const model::StateBytes& part : {state.experts, state.others})
    bytes.gpu += (part.parameters + part.gradients + part.optimizer).value();
  if (device_.reserve.master_shards) bytes.gpu -= state.counts.shards.value();
  bytes.host = state.counts.on_host.value();
  return bytes;
}

std::vector<MemoryFloor::Least> MemoryFloor::bytes(const model::Plan& plan, const Pipeline& pipeline) {
  const model::Layout layout = *model::make_layout(plan, inputs_.architecture);
  std::vector<std::int64_t> key = model::parameter_degrees(plan.parallelism);
  key.insert(key.end(),
             {plan.parallelism.zero_stage, layout.embedding_with_head, model::shard_group(plan, layout, false).shards,
              model::shard_group(plan, layout, true).shards});
  States& states = states_[std::move(key)];
  std::vector<double> before = {0};  // [layer]: bytes of the layers before it
  double on_hosts = 0;               // of all ranks of a pipeline
  const auto add = [&](BlockKind kind, std::int64_t times) {
    const Least block = block_bytes(kind, plan, layout, states);
    on_hosts += static_cast<double>(times) * block.host;
    return static_cast<double>(times) * block.gpu;
  };
  for (const BlockKind kind : layer_kinds_) before.push_back(before.back() + add(kind, 1));
  const double first = add(BlockKind::embedding, 1);
  double last = add(BlockKind::head, 1);
  if (const std::int64_t modules = inputs_.architecture.multi_token_prediction_layers; modules > 0)
    last += add(BlockKind::multi_token_prediction, modules);
  const std::int64_t gpus = plan.cluster.gpus, of_host = std::max<std::int64_t>(1, device_.host_gpus);
  const double host = on_hosts * static_cast<double>(gpus) /
                      static_cast<double>(pipeline.shape.ranks * ((gpus + of_host - 1) / of_host));
  // Gradients are not counted twice and activations not at all, so this is at most the peak of the rest.
  const double reserve = model::rank_peak(plan, layout, device_, {}).sum().value();
  const model::Schedule outline = pipeline.kind->outline(pipeline.shape);
  std::vector<Least> floors;
  for (const Split& split : pipeline.splits) {
    const std::vector<std::int64_t> counts =
        split.layers.empty() ? model::even_layer_counts(inputs_.architecture.layers, pipeline.stages) : split.layers;
    std::vector<double> ranks(static_cast<std::size_t>(pipeline.shape.ranks), reserve);
    std::size_t layer = 0;
    for (std::int32_t stage = 0; stage < outline.stages; ++stage) {
      const std::size_t next = layer + static_cast<std::size_t>(counts[static_cast<std::size_t>(stage)]);
      double held = before[next] - before[layer];
      if (stage == 0) held += first;
      if (stage + 1 == outline.stages) held += last;
      // A stage that both directions have on the same rank is held once.
      for (std::int32_t direction = 0; direction < outline.directions; ++direction)
        if (direction == 0 || outline.rank_of(1, stage) != outline.rank_of(0, stage))
          ranks[static_cast<std::size_t>(outline.rank_of(direction, stage))] += held;
      layer = next;
    }
    floors.push_back({*std::ranges::max_element(ranks), host});
  }
  return floors;
}

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
  const std::vector<std::int64_t> key = {group.ranks, group.stride, plan.parallelism.tensor,
                                         plan.overlap.communication_sms};
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
