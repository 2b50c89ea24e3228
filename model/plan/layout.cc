#include "model/plan/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/plan/detail/plan_rules.h"
#include "model/plan/stage_split.h"
#include "model/routing/files.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {
namespace {

Error impossible(const Plan& plan, std::string key, std::string message, std::string hint) {
  return plan_error(plan, ErrorKind::infeasible, std::move(key), std::move(message), std::move(hint));
}

std::optional<Error> derive_data(const Plan& plan, Layout& layout) {
  const auto& degrees = plan.parallelism;
  const std::int64_t replica = degrees.tensor * degrees.context * degrees.pipeline;
  const std::int64_t gpus = plan.cluster.gpus;
  if (gpus % replica != 0) {
    const std::int64_t below = gpus / replica * replica;
    return impossible(
        plan, "cluster.gpus",
        fmt::format("{} GPUs are not a multiple of tensor * context * pipeline = {} * {} * {} = {}", gpus,
                    degrees.tensor, degrees.context, degrees.pipeline, replica),
        below > 0 ? fmt::format("use {} or {} GPUs", below, below + replica) : fmt::format("use {} GPUs", replica));
  }
  layout.data = gpus / replica;
  return std::nullopt;
}

std::optional<Error> derive_batch(const Plan& plan, Layout& layout) {
  const auto& batch = plan.batch;
  const std::int64_t quantum = layout.data * batch.micro_batch_size;
  if (batch.global_batch_size < quantum)
    return impossible(plan, "batch.global_batch_size",
                      fmt::format("{} sequences do not fill data * micro_batch_size = {} * {} = {}",
                                  batch.global_batch_size, layout.data, batch.micro_batch_size, quantum),
                      fmt::format("use {} or more", quantum));
  layout.micro_batches = (batch.global_batch_size + quantum - 1) / quantum;
  layout.tokens_per_micro_batch = batch.sequence_length / plan.parallelism.context * batch.micro_batch_size;
  return std::nullopt;
}

std::optional<Error> check_stage_counts(const Plan& plan, const Architecture& architecture, const Layout& layout) {
  const std::vector<std::int64_t>& counts = plan.schedule.layers_per_stage.counts;
  const std::string key = "schedule.layers_per_stage";
  const std::int64_t most = architecture.layers + 2;
  if (counts.empty() && layout.stages > most)
    return impossible(plan, "parallelism.pipeline",
                      fmt::format("{} stages are more than the {} layers of {} with embedding and head", layout.stages,
                                  architecture.layers, architecture.name),
                      fmt::format("use at most {} stages", most));
  if (counts.empty()) return std::nullopt;
  if (static_cast<std::int64_t>(counts.size()) != layout.stages)
    return impossible(plan, key,
                      fmt::format("{} entries for the {} stages of {} on {} ranks", counts.size(), layout.stages,
                                  plan.schedule.kind, plan.parallelism.pipeline),
                      "give one entry per stage, or \"balanced\" or \"even\"");
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != architecture.layers)
    return impossible(plan, key,
                      fmt::format("the stages hold {} layers, {} has {}", sum, architecture.name, architecture.layers),
                      sum < architecture.layers ? fmt::format("add {}", architecture.layers - sum)
                                                : fmt::format("remove {}", sum - architecture.layers));
  for (std::int64_t stage = 0; stage < layout.stages; ++stage) {
    const bool predicts = architecture.multi_token_prediction_layers > 0 && stage > 0 && stage + 2 == layout.stages &&
                          !layout.embedding_with_head;
    if (counts[static_cast<std::size_t>(stage)] == 0 && fewest_layers(stage, layout.stages) > 0 && !predicts)
      return impossible(plan, key, fmt::format("stage {} holds nothing", stage),
                        "the first stage has the embedding and the last one the head; give each of the others a layer");
  }
  return std::nullopt;
}

std::optional<Error> derive_stages(const Plan& plan, const Architecture& architecture, Layout& layout) {
  if (auto error = check_stage_counts(plan, architecture, layout)) return error;
  std::int64_t next = 0;
  for (const std::int64_t count : stage_layer_counts(plan, architecture, layout.stages)) {
    std::vector<std::int64_t>& layers = layout.stage_layers.emplace_back(static_cast<std::size_t>(count));
    std::iota(layers.begin(), layers.end(), next);
    next += count;
  }
  return std::nullopt;
}

std::string plan_key_of(const std::string& shape_field) {
  if (shape_field == "ranks") return "parallelism.pipeline";
  if (shape_field == "micro_batches") return "batch.global_batch_size";
  if (shape_field == "virtual_stages") return "schedule.virtual_stages";
  return "schedule.kind";
}

std::optional<Error> derive_schedule(const Plan& plan, Layout& layout) {
  const auto kind = schedule_kind(plan);
  if (!kind) {
    const Error& error = kind.error();
    return plan_error(plan, error.kind, "schedule.kind", error.message, error.hint);
  }
  const ScheduleShape shape = schedule_shape(plan, layout.micro_batches, **kind);
  if (const auto allowed = (*kind)->check(shape); !allowed) {
    const Error& error = allowed.error();
    return plan_error(plan, error.kind, plan_key_of(error.key), error.message, error.hint);
  }
  const Schedule schedule = (*kind)->outline(shape);
  layout.schedule = shape;
  layout.stages = schedule.stages;
  layout.two_directions = schedule.directions == 2;
  layout.embedding_with_head =
      layout.two_directions || schedule.rank_of(0, 0) == schedule.rank_of(0, schedule.stages - 1);
  return std::nullopt;
}

// Refuses keys that another one makes meaningless, and keys without the one that they belong to.
std::optional<Error> check_gating(const Plan& plan, const Architecture& model) {
  const auto& routing = plan.routing;
  const bool measured = routing.load_file.has_value(), drawn = routing.skew.has_value();
  const std::string key = measured ? "routing.load_file" : "routing.skew";
  if (measured && drawn)
    return impossible(plan, key, "a load file and routing.skew both set the load of experts", "give one of them");
  if ((measured || drawn) && (routing.imbalance > 0 || !routing.rows_per_rank.empty()))
    return impossible(plan, key, "routing.imbalance and routing.rows_per_rank set how uneven the ranks are, too",
                      "give one of them");
  for (const auto& [name, given] : {std::pair{"routing.correlation", routing.correlation.has_value()},
                                    std::pair{"routing.balancing", routing.balancing.has_value()}})
    if (given && !drawn)
      return impossible(plan, name, "is of a gate whose experts are popular", "give routing.skew, too");
  if (routing.bias_rate && routing.balancing != "bias")
    return impossible(plan, "routing.bias_rate", "no bias is balanced", "give routing.balancing = \"bias\"");
  const std::int64_t copies = routing.redundant_experts.value_or(0);
  if (copies % plan.parallelism.expert != 0)
    return impossible(plan, "routing.redundant_experts",
                      fmt::format("{} copies do not divide over {} ranks", copies, plan.parallelism.expert),
                      fmt::format("use a multiple of {}", plan.parallelism.expert));
  if (!measured || plan.files == nullptr || plan.files->loads.empty()) return std::nullopt;
  const std::vector<LayerRows>& loads = plan.files->loads;
  if (std::ssize(loads.front().rows) != model.experts.routed_experts)
    return impossible(plan, key,
                      fmt::format("the file has loads of {} experts, {} has {}", loads.front().rows.size(), model.name,
                                  model.experts.routed_experts),
                      "give loads of this model");
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (model.is_moe_layer(layer) && std::ranges::find(loads, layer, &LayerRows::layer) == loads.end())
      return impossible(plan, key, fmt::format("the file has no loads of layer {}", layer), "measure all layers");
  return std::nullopt;
}

std::optional<Error> check_rows(const Plan& plan) {
  if (plan.routing.pad_to_capacity.value_or(false) && !plan.routing.capacity_factor)
    return impossible(plan, "routing.pad_to_capacity", "experts without a capacity cannot be filled up to it",
                      "give routing.capacity_factor");
  const auto ranks = static_cast<std::int64_t>(plan.routing.rows_per_rank.size());
  if (ranks == 0) return std::nullopt;
  const std::string key = "routing.rows_per_rank";
  if (ranks != plan.parallelism.expert)
    return impossible(plan, key, fmt::format("{} row counts for {} expert ranks", ranks, plan.parallelism.expert),
                      "give one number for each of parallelism.expert ranks");
  if (plan.routing.imbalance > 0)
    return impossible(plan, key, "row counts and routing.imbalance both set how uneven the ranks are",
                      "give one of them");
  return std::nullopt;
}

std::optional<Error> derive_experts(const Plan& plan, const Architecture& architecture, Layout& layout) {
  const auto& degrees = plan.parallelism;
  const std::int64_t routed = architecture.experts.routed_experts;
  const std::string key = "parallelism.expert";
  if (routed == 0 && degrees.expert > 1)
    return impossible(plan, key,
                      fmt::format("{} has no experts to spread over {} ranks", architecture.name, degrees.expert),
                      "set it to 1");
  const std::int64_t ranks = degrees.tensor * degrees.context * layout.data;
  const std::int64_t group = degrees.expert * degrees.expert_tensor;
  if (group > ranks)
    return impossible(
        plan, key,
        fmt::format("an expert group of {} ranks is larger than the {} data-parallel ranks of a stage", group, ranks),
        fmt::format("use at most {}, more GPUs or fewer pipeline stages", ranks));
  if (ranks % group != 0)
    return impossible(
        plan, key,
        fmt::format("expert * expert_tensor = {} does not divide tensor * context * data = {}", group, ranks),
        fmt::format("use a divisor of {}", ranks));
  if (routed % degrees.expert != 0)
    return impossible(plan, key, fmt::format("{} routed experts do not divide over {} ranks", routed, degrees.expert),
                      fmt::format("use a divisor of {}", routed));
  const std::int64_t groups = groups_per_token(plan, architecture.experts);
  const std::int64_t reachable = groups * (routed / architecture.experts.groups);
  if (architecture.experts.experts_per_token > reachable)
    return impossible(
        plan, "routing.max_nodes_per_token",
        fmt::format("a token cannot use {} of {} reachable experts", architecture.experts.experts_per_token, reachable),
        fmt::format("{} of {} expert groups hold too few experts", groups, architecture.experts.groups));
  if (auto error = check_rows(plan)) return error;
  if (auto error = check_gating(plan, architecture)) return error;
  const std::int64_t directions = layout.two_directions ? 2 : 1;
  layout.experts_per_rank = (routed + plan.routing.redundant_experts.value_or(0)) / degrees.expert;
  layout.expert_replicas = ranks / group;
  layout.dense_group = degrees.context * layout.data * directions;
  layout.dense_stride = degrees.tensor;
  layout.expert_group = layout.expert_replicas * directions;
  layout.expert_stride = group;
  return std::nullopt;
}

// Nothing would be computed again, which is another policy's meaning.
std::optional<Error> check_recomputation(const Plan& plan) {
  if (plan.recompute.policy != "selective" || !plan.recompute.operators.empty()) return std::nullopt;
  return impossible(plan, "recompute.operators", "selective recomputation without operators computes nothing again",
                    "name them: [\"core_attention\"] is Megatron's default; or set recompute.policy to none or full");
}

std::optional<Error> check_adapters(const Plan& plan, const Architecture& architecture) {
  const auto& [method, rank, targets, objective, reference] = plan.training;
  if (method == "full") return std::nullopt;
  if (architecture.shared_blocks.adapter_rank > 0)
    return impossible(plan, "training.method",
                      fmt::format("layers of {} share blocks that have adapters of their own", architecture.name),
                      "train all of it: training.method = \"full\"");
  const auto& precision = plan.precision;
  const bool quantized = is_quantized(precision.gemm), has_experts = architecture.experts.routed_experts > 0;
  const bool experts = std::ranges::find(targets, "experts") != targets.end();
  const std::string key = "training.targets";
  if (experts && !has_experts && targets.size() == 1)
    return impossible(plan, key, fmt::format("{} has no experts", architecture.name), "name attention or mlp");
  bool dense = architecture.experts.shared_width() > 0;
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer)
    dense = dense || architecture.layer(layer).feed_forward == FeedForward::dense;
  if (!dense && targets == std::vector<std::string>{"mlp"})
    return impossible(plan, key, fmt::format("{} has no MLP but experts", architecture.name),
                      "name attention or experts");
  const bool quantized_experts = has_experts && is_quantized(precision.experts.value_or(precision.gemm));
  if (experts && quantized_experts && is_quantized(precision.dispatch))
    return impossible(plan, key, "adapters of experts read tokens in 16 bits, as which they must arrive",
                      "set precision.dispatch = \"bf16\"");
  if (method == "qlora" && (quantized || quantized_experts))
    return impossible(plan, "training.method", "weights in NF4 are multiplied in 16 bits",
                      "set precision.gemm = \"bf16\", or training.method = \"lora\"");
  return std::nullopt;
}

std::optional<Error> check_objective(const Plan& plan) {
  if (plan.training.objective != "dpo" || plan.batch.document_length || plan.batch.document_lengths)
    return std::nullopt;
  if (plan.batch.micro_batch_size % 2 == 0) return std::nullopt;
  return impossible(plan, "batch.micro_batch_size",
                    fmt::format("{} sequences are no whole pairs of answers", plan.batch.micro_batch_size),
                    "use an even number; or state batch.document_length, where a sequence holds several answers");
}

std::optional<Error> check_optimizer(const Plan& plan) {
  if (plan.optimizer.kind != "muon" || !plan.offload.optimizer) return std::nullopt;
  return impossible(plan, "offload.optimizer", "a host does not compute the GEMMs of Muon", "set it to false");
}

std::optional<Error> check_positions(const Plan& plan, const Architecture& architecture) {
  const bool learned = architecture.positions == PositionKind::learned;
  if (!learned || plan.batch.sequence_length <= architecture.position_table) return std::nullopt;
  return plan_error(
      plan, ErrorKind::infeasible, "batch.sequence_length",
      fmt::format("{} learned positions for sequences of {} tokens", architecture.position_table,
                  plan.batch.sequence_length),
      fmt::format("{} has positions for at most {} tokens", architecture.name, architecture.position_table));
}

// Batched GEMMs over whole sequences would score tokens that the indexer did not choose.
std::optional<Error> check_attention(const Plan& plan, const Architecture& architecture) {
  if (architecture.sparse.tokens == 0 || plan.attention.kernel != "unfused") return std::nullopt;
  return impossible(plan, "attention.kernel",
                    fmt::format("{} attends to the {} tokens that its indexer chooses, and stored scores are of all",
                                architecture.name, architecture.sparse.tokens),
                    "set it to fused");
}

}  // namespace

Result<const ScheduleKind*> schedule_kind(const Plan& plan) {
  if (plan.schedule_file && plan.schedule.kind.starts_with(schedule_file_prefix)) return plan.schedule_file.get();
  return find_schedule(plan.schedule.kind);
}

ScheduleShape schedule_shape(const Plan& plan, std::int64_t micro_batches, const ScheduleKind& kind) {
  ScheduleShape shape;
  shape.ranks = static_cast<std::int32_t>(plan.parallelism.pipeline);
  shape.micro_batches = static_cast<std::int32_t>(micro_batches);
  shape.virtual_stages = static_cast<std::int32_t>(plan.schedule.virtual_stages);
  if (kind.check(shape)) return shape;
  ScheduleShape wider = shape;
  for (wider.micro_batch_group = shape.ranks + 1; wider.micro_batch_group <= shape.micro_batches;
       ++wider.micro_batch_group)
    if (kind.check(wider)) return wider;
  return shape;
}

std::int64_t groups_per_token(const Plan& plan, const MixtureOfExperts& experts) {
  return std::min(plan.routing.max_nodes_per_token.value_or(experts.groups_per_token), experts.groups);
}

RankGroup expert_group(const Parallelism& degrees) { return {degrees.expert, degrees.expert_tensor}; }

std::vector<RankGroup> layer_groups(const Parallelism& degrees) {
  return {{degrees.tensor, 1}, {degrees.expert_tensor, 1}, {degrees.context, degrees.tensor}};
}

std::vector<std::int64_t> parameter_degrees(const Parallelism& degrees) {
  std::vector<std::int64_t> values;
  for (const Degree& degree : parallel_degrees)
    if (degree.divides_parameters) values.push_back(degrees.*degree.value);
  return values;
}

std::vector<std::int64_t> stage_layer_counts(const Plan& plan, const Architecture& architecture, std::int64_t stages) {
  const StageLayers& layers = plan.schedule.layers_per_stage;
  return layers.counts.empty() ? even_layer_counts(architecture.layers, stages) : layers.counts;
}

std::int64_t prediction_stage(const Layout& layout) {
  const std::int64_t last = layout.stages - 1;
  return last > 1 && layout.stage_layers[static_cast<std::size_t>(last) - 1].empty() ? last - 1 : last;
}

std::vector<std::string> shortfalls(const Plan& plan, const Layout& layout) {
  std::vector<std::string> warnings = software_layout_warnings(plan, layout);
  const std::int64_t given = plan.batch.global_batch_size;
  const std::int64_t priced = layout.micro_batches * layout.data * plan.batch.micro_batch_size;
  if (priced == given) return warnings;
  warnings.push_back(fmt::format(
      "{} sequences do not divide over {} data-parallel ranks in micro-batches of {}: the step is that of a rank with "
      "{} full micro-batches, as if there were {} ({:.1f} % more); tokens per second count the {}",
      given, layout.data, plan.batch.micro_batch_size, layout.micro_batches, priced,
      100 * (static_cast<double>(priced) / static_cast<double>(given) - 1), given));
  return warnings;
}

std::vector<std::string> layout_warnings(const Plan& plan, const Layout& layout) {
  std::vector<std::string> warnings = shortfalls(plan, layout);
  const StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.found && layers.replaced > 0)
    warnings.push_back(fmt::format(
        "schedule.layers_per_stage has the {} stages of another schedule: the {} of this one are balanced, {}",
        layers.replaced, layout.stages, fmt::join(layers.counts, " ")));
  const auto& training = plan.training;
  if (training.method == "full" && (training.rank != decltype(plan.training){}.rank || !training.targets.empty()))
    warnings.emplace_back(
        "training.rank and training.targets have no effect: with training.method full all is trained");
  if (training.objective != "dpo" && training.reference != "model")
    warnings.emplace_back("training.reference has no effect: with training.objective next-token there is none");
  return warnings;
}

std::vector<std::string> unread_key_warnings(const Plan& plan, const Architecture& architecture) {
  if (architecture.experts.routed_experts > 0) return {};
  std::vector<std::string> keys;
  for (auto place = plan.places.lower_bound("routing."); place != plan.places.end(); ++place) {
    if (!place->first.starts_with("routing.")) break;
    const bool empty = place->first == "routing.rows_per_rank" && plan.routing.rows_per_rank.empty();
    if (place->second.implied_by.empty() && !empty) keys.push_back(place->first);
  }
  if (keys.empty()) return {};
  return {fmt::format("{} {} no effect: {} has no experts", fmt::join(keys, ", "), keys.size() == 1 ? "has" : "have",
                      architecture.name)};
}

Result<Layout> make_layout(const Plan& plan, const Architecture& architecture) {
  Layout layout;
  if (plan.batch.global_batch_size == 0)
    return tl::unexpected(plan_error(plan, ErrorKind::input, "batch.global_batch_size",
                                     "the plan has no [batch]: it serves a model and does not train it",
                                     "give it [batch], or predict it with `plumbline serve`"));
  if (plan.batch.sequence_length == 0)
    return tl::unexpected(plan_error(plan, ErrorKind::input, "batch.sequence_length", "required key is missing",
                                     "add 'sequence_length = ...' under [batch]"));
  // What refuses a plan whatever its degrees comes first: other degrees would not help.
  std::optional<Error> error = check_positions(plan, architecture);
  if (!error) error = check_attention(plan, architecture);
  if (!error) error = check_adapters(plan, architecture);
  if (!error) error = check_optimizer(plan);
  if (!error) error = check_divisions(plan, architecture);
  if (!error) error = derive_data(plan, layout);
  if (!error) error = derive_batch(plan, layout);
  if (!error) error = derive_schedule(plan, layout);
  if (!error) error = derive_stages(plan, architecture, layout);
  if (!error) error = derive_experts(plan, architecture, layout);
  if (!error) error = check_sharding(plan, layout);
  if (!error) error = check_recomputation(plan);
  if (!error) error = check_objective(plan);
  if (!error) error = check_software(plan, architecture, layout);
  if (error) return tl::unexpected(*error);
  return layout;
}

}  // namespace plumbline::model
