#include "model/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "model/base/random.h"
#include "model/cost/operator_class.h"
#include "model/cost/work.h"
#include "model/plan/plan.h"
#include "model/routing/rank_rows.h"

namespace plumbline::model {
namespace {

constexpr std::int64_t drawn_tokens = 2048;
constexpr std::int64_t drawn_logits = std::int64_t{1} << 24;  // of all tokens: those of 8,192 experts
constexpr std::uint64_t routing_seed = 20250225;

// Moves the `count` indices with the largest scores to the front; ties go to the smaller index.
void select_best(std::vector<std::int64_t>& indices, std::int64_t count, const std::vector<double>& scores) {
  std::partial_sort(indices.begin(), indices.begin() + count, indices.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
}

double sigmoid(double logit) { return 1 / (1 + std::exp(-logit)); }

// The router: draws a token's logits and selects its experts. The sigmoid keeps the order of logits, so only the
// experts that enter a group's score need it. Buffers are reused between tokens.
class Gate {
 public:
  Gate(const MixtureOfExperts& experts, std::int64_t groups_per_token)
      : experts_(experts),
        groups_per_token_(groups_per_token),
        size_(experts.routed_experts / experts.groups),
        logits_(experts.routed_experts),
        group_scores_(experts.groups),
        groups_(experts.groups),
        best_(std::min<std::int64_t>(experts.group_score_experts, size_)) {}

  // Returns the selected experts, best first, followed by others.
  const std::vector<std::int64_t>& choose(Random& random) {
    for (double& logit : logits_) logit = random.normal();
    for (std::int64_t g = 0; g < experts_.groups; ++g) group_scores_[g] = group_score(g);
    std::iota(groups_.begin(), groups_.end(), 0);
    select_best(groups_, groups_per_token_, group_scores_);
    allowed_.clear();
    for (std::int64_t g = 0; g < groups_per_token_; ++g)
      for (std::int64_t i = 0; i < size_; ++i) allowed_.push_back(groups_[g] * size_ + i);
    select_best(allowed_, experts_.experts_per_token, logits_);
    return allowed_;
  }

 private:
  double group_score(std::int64_t group) {
    const auto members = logits_.begin() + group * size_;
    std::partial_sort_copy(members, members + size_, best_.begin(), best_.end(), std::greater<>());
    double score = 0;
    for (const double logit : best_) score += sigmoid(logit);
    return score;
  }

  const MixtureOfExperts& experts_;
  std::int64_t groups_per_token_;
  std::int64_t size_;  // experts of a group
  std::vector<double> logits_, group_scores_;
  std::vector<std::int64_t> groups_, allowed_;
  std::vector<double> best_;
};

// Returns the number of distinct values; reorders them.
double distinct(std::vector<std::int64_t>& values) {
  std::ranges::sort(values);
  return static_cast<double>(std::unique(values.begin(), values.end()) - values.begin());
}

}  // namespace

RoutingSpread routing_spread(const MixtureOfExperts& e, std::int64_t groups_per_token, std::int64_t expert_parallel,
                             std::int64_t ranks_per_node) {
  if (e.routed_experts == 0) return {};
  if (expert_parallel == 1) return {1, 1};
  const std::int64_t experts_per_rank = e.routed_experts / expert_parallel;
  Random random(routing_seed);
  Gate gate(e, groups_per_token);
  std::vector<std::int64_t> ranks(e.experts_per_token), nodes(e.experts_per_token);
  double ranks_total = 0;
  double nodes_total = 0;
  const std::int64_t tokens = std::clamp<std::int64_t>(drawn_logits / e.routed_experts, 16, drawn_tokens);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::vector<std::int64_t>& chosen = gate.choose(random);
    for (std::int64_t i = 0; i < e.experts_per_token; ++i) {
      ranks[i] = chosen[i] / experts_per_rank;
      nodes[i] = ranks[i] / ranks_per_node;
    }
    ranks_total += distinct(ranks);
    nodes_total += distinct(nodes);
  }
  const auto count = static_cast<double>(tokens);
  return {ranks_total / count, nodes_total / count};
}

RoutingBalance routing_balance(const Plan& plan, const MixtureOfExperts& experts) {
  // Of one expert. Scores by sigmoid go with biases that balance, the softmax with an auxiliary loss.
  const bool biased = experts.score == ScoreFunction::sigmoid;
  const double usual = biased ? 0.15 : auxiliary_variation(experts.routed_experts);
  const double most = biased ? 0.3 : 1.4 * usual;
  constexpr double least = 0.04 / 2.4;
  const auto& routing = plan.routing;
  const bool drawn = states_expert_loads(plan);
  const double used = drawn ? deviation_of_rows(plan, experts) : routing.imbalance;
  if (used > 0) return {used, used, used * least / usual, used * most / usual, true};
  const auto held = std::max<std::int64_t>(1, experts.routed_experts / plan.parallelism.expert);
  const double even = std::sqrt(static_cast<double>(held));
  const bool stated = !routing.rows_per_rank.empty() || routing.pad_to_capacity.value_or(false) ||
                      plan.places.contains("routing.imbalance") || drawn;
  return {used, usual / even, 0, most / even, stated};
}

void set_imbalance(Plan& plan, double imbalance) {
  auto& routing = plan.routing;
  routing.imbalance = imbalance;
  routing.rows_per_rank.clear();
  routing.load_file.reset();
  routing.skew.reset();
  routing.correlation.reset();
  routing.balancing.reset();
  routing.bias_rate.reset();
}

std::string span_name(Section section, Phase phase) {
  return fmt::format("{}({})", to_string(section), phase == Phase::I ? "B" : to_string(phase));
}

namespace {

struct Owned {  // a parameter that a block owns, in any stage
  TensorId parameter = 0;
  std::optional<TensorId> gradient;
  std::size_t written = 0;  // rank of the operator that completes the gradient in its block's backward pass
};

// Returns the position of a section in a block's backward pass.
std::size_t backward_order(Section section) {
  constexpr std::array order = {Section::head, Section::combine, Section::mlp, Section::dispatch, Section::attention};
  return static_cast<std::size_t>(std::ranges::find(order, section) - order.begin());
}

std::size_t last_write(const Graph& graph, TensorId gradient) {
  std::size_t rank = 0;
  for (std::size_t i = 0; i < graph.operators.size(); ++i)
    if (std::ranges::find(graph.operators[i].writes, gradient) != graph.operators[i].writes.end())
      rank = (1 + backward_order(graph.operators[i].section)) * graph.operators.size() + i;
  return rank;
}

std::optional<TensorId> gradient_of(const Graph& graph, const std::string& parameter) {
  const std::string name = "d_" + parameter;
  for (TensorId id = 0; id < graph.tensors.size(); ++id)
    if (graph.tensors[id].role == Role::gradient && graph.tensors[id].name == name) return id;
  return std::nullopt;
}

class Grouper {
 public:
  Grouper(const Plan& plan, const std::vector<Graph>& blocks, const StageKind& stage)
      : plan_(plan),
        by_block_(plan.parallelism.zero_stage == 3),
        bucket_bytes_(plan.overlap.gradient_bucket_bytes),
        gradient_bytes_(bytes_per_element(activation_type(plan.precision.gradients))),
        blocks_(blocks),
        stage_(stage) {}

  std::vector<StageUnit> run() {
    for (std::size_t position = stage_.blocks.size(); position-- > 0;)
      for (const Owned& owned : owned_by(stage_.blocks[position])) add(owned, static_cast<std::uint16_t>(position));
    for (std::size_t position = 0; position < stage_.blocks.size(); ++position)
      borrow(static_cast<std::uint16_t>(position));
    return std::move(units_);
  }

 private:
  // Returns whether parameters that the block shares are gathered for it: those of the policy, of which a reference
  // model has no copy next to adapters.
  bool gathers_own(const Graph& g) const { return g.reference && plan_.training.method != "full"; }
  const Graph& graph(std::uint16_t position) const { return blocks_[stage_.blocks[position]]; }

  // The result is the same for all layers of one kind.
  const std::vector<Owned>& owned_by(std::uint16_t block) {
    const auto [entry, fresh] = owned_.try_emplace(block);
    std::vector<Owned>& owned = entry->second;
    if (!fresh) return owned;
    const Graph& g = blocks_[block];
    for (TensorId id = 0; id < g.tensors.size(); ++id) {
      if (g.tensors[id].role != Role::parameter || (g.tensors[id].shared && !gathers_own(g))) continue;
      if (g.tensors[id].frozen && !by_block_) continue;
      Owned one{id, gradient_of(g, g.tensors[id].name), 0};
      if (one.gradient) one.written = last_write(g, *one.gradient);
      owned.push_back(one);
    }
    std::ranges::stable_sort(owned, {}, &Owned::written);
    return owned;
  }

  std::size_t unit_for(const Tensor& tensor, std::uint16_t position) {
    const Key key{by_block_ ? position : 0, tensor.expert, by_block_ ? DataType::bf16 : tensor.type,
                  !by_block_ && updated_by_muon(plan_, tensor)};
    const auto [entry, fresh] = open_.try_emplace(key, units_.size());
    if (fresh) {
      const std::string_view kind = tensor.expert ? "experts" : "dense";
      units_.push_back({by_block_ ? fmt::format("{}_block{}", kind, position)
                                  : fmt::format("{}_{}_{}", kind, to_string(tensor.type), units_.size()),
                        tensor.expert,
                        {},
                        {},
                        {}});
    }
    const std::size_t unit = entry->second;
    bytes_[unit] += tensor.elements() * gradient_bytes_;
    if (!by_block_ && bytes_[unit] >= bucket_bytes_) open_.erase(key);
    return unit;
  }

  void add(const Owned& owned, std::uint16_t position) {
    const Tensor& tensor = graph(position).tensor(owned.parameter);
    const std::size_t index = unit_for(tensor, position);
    StageUnit& unit = units_[index];
    unit.parameters.push_back({position, owned.parameter});
    if (owned.gradient) unit.gradients.push_back({position, *owned.gradient});
    const bool muon = updated_by_muon(plan_, tensor);
    auto piece = std::ranges::find_if(unit.pieces, [&tensor, muon](const UnitPiece& one) {
      return one.stored == tensor.type && one.frozen == tensor.frozen && one.muon == muon;
    });
    if (piece == unit.pieces.end())
      piece = unit.pieces.insert(piece, {tensor.type, tensor.frozen, muon, 0, 0, 0, 0, {}});
    piece->elements += tensor.elements();
    if (muon) {
      const std::int64_t rows = tensor.shape[tensor.shape.size() - 2].size, columns = tensor.shape.back().size;
      piece->matrices[{rows, columns}] += tensor.elements() / static_cast<double>(rows * columns);
    }
    if (!tensor.divided && !tensor.expert) piece->whole += tensor.elements();
    if (tensor.copies > 0 && !tensor.frozen) {
      piece->cast += tensor.elements();
      piece->copies = tensor.copies;
    }
    owners_.try_emplace({tensor.name, tensor.expert, graph(position).reference}, index);
  }

  void borrow(std::uint16_t position) {
    const Graph& g = graph(position);
    for (TensorId id = 0; id < g.tensors.size(); ++id) {
      const Tensor& tensor = g.tensors[id];
      if (!tensor.shared || tensor.role != Role::parameter || gathers_own(g)) continue;
      const auto owner = owners_.find({tensor.name, tensor.expert, g.reference});
      if (owner == owners_.end()) continue;
      units_[owner->second].parameters.push_back({position, id});
      if (const auto gradient = gradient_of(g, tensor.name))
        units_[owner->second].gradients.push_back({position, *gradient});
    }
  }

  using Key = std::tuple<std::uint16_t, bool, DataType, bool>;
  const Plan& plan_;
  bool by_block_;
  double bucket_bytes_, gradient_bytes_;
  const std::vector<Graph>& blocks_;
  const StageKind& stage_;
  std::vector<StageUnit> units_;
  std::map<std::uint16_t, std::vector<Owned>> owned_;                  // by block
  std::map<Key, std::size_t> open_;                                    // units that are not full yet
  std::map<std::size_t, double> bytes_;                                // of the gradients of each unit
  std::map<std::tuple<std::string, bool, bool>, std::size_t> owners_;  // by name, whether of experts, and reference
};

}  // namespace

bool updated_by_muon(const Plan& plan, const Tensor& parameter) {
  if (plan.optimizer.kind != "muon" || parameter.frozen || parameter.shape.size() < 2) return false;
  const std::size_t last = parameter.shape.size() - 1;
  const bool vector = std::min(parameter.shape[last - 1].size, parameter.shape[last].size) == 1;
  return !vector && !parameter.name.ends_with("embedding") && parameter.name != "positions" &&
         parameter.name != "output";
}

std::vector<StageUnit> stage_units(const Plan& plan, const std::vector<Graph>& blocks, const StageKind& stage) {
  return Grouper(plan, blocks, stage).run();
}

namespace {

Direction direction_of(OpType type) {
  using enum Direction;
  constexpr std::array by_type = {forward, backward, input_gradient, weight_gradient, both};
  return by_type[static_cast<std::size_t>(type)];
}

Direction direction_of(Phase phase) {
  if (phase == Phase::F) return Direction::forward;
  return phase == Phase::I ? Direction::input_gradient : Direction::weight_gradient;
}

// Whether a segment sends: its bytes are those on links, not those in memory.
bool sends(Stream stream) { return stream == Stream::communication || stream == Stream::collective; }

SpanWork operator_work(const Graph& graph, const Segment& segment, std::uint16_t index) {
  const Operator& op = graph.operators[index];
  SpanWork work{std::string(to_string(operator_class(graph, op))), 0, 0};
  if (sends(segment.stream)) return work;
  work.flops = segment.share * flops(graph, op, 1, true).value();
  work.bytes = segment.share * bytes_moved(graph, op, 1).value();
  return work;
}

}  // namespace

SpanWork SpanLabels::work_of(const Segment& segment, double sent_bytes) const {
  SpanWork sum;
  for (const std::uint16_t index : segment.operators) {
    const SpanWork work = operator_work(program_.blocks[segment.block], segment, index);
    if (index == segment.operators.front()) sum.class_name = work.class_name;
    if (work.class_name != sum.class_name) sum.class_name.clear();
    sum.flops += work.flops;
    sum.bytes += work.bytes;
  }
  if (sends(segment.stream)) sum.bytes = sent_bytes;
  return sum;
}

SpanLabels::SpanLabels(const StepProgram& program) : program_(program), chunks_(program.schedule.ranks.size()) {
  const Schedule& schedule = program.schedule;
  for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
    for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
      chunks_[static_cast<std::size_t>(schedule.rank_of(direction, stage))].emplace_back(direction, stage);
}

std::int32_t SpanLabels::chunk_of(std::size_t rank, std::int32_t direction, std::int32_t stage) const {
  const auto found = std::ranges::find(chunks_[rank], std::pair(direction, stage));
  return found == chunks_[rank].end() ? -1 : static_cast<std::int32_t>(found - chunks_[rank].begin());
}

Span SpanLabels::slot(std::size_t rank, std::size_t op) const {
  const ScheduleOp& o = program_.schedule.ranks[rank][op];
  const bool forward = o.f_stage >= 0, both = forward && o.b_stage >= 0;
  const std::int32_t stage = forward ? o.f_stage : o.b_stage;
  return {.rank = static_cast<std::int32_t>(rank),
          .micro_batch = forward ? o.f_mb : o.b_mb,
          .direction = direction_of(o.type),
          .stage = stage,
          .chunk = chunk_of(rank, forward ? o.f_dir : o.b_dir, stage),
          .overlapped_stage = both ? o.b_stage : -1,
          .overlapped_micro_batch = both ? o.b_mb : -1};
}

Span SpanLabels::segment(std::size_t rank, std::size_t op, std::size_t segment, double sent_bytes) {
  const ScheduleOp& o = program_.schedule.ranks[rank][op];
  const Segment& s = segment_of(rank, op, segment);
  const std::int32_t stage = s.forward_side ? o.f_stage : o.b_stage;
  Span span{.rank = static_cast<std::int32_t>(rank),
            .stream = s.stream,
            .layer = program_.stages[static_cast<std::size_t>(stage)].layers[s.block_of_stage],
            .micro_batch = s.forward_side ? o.f_mb : o.b_mb,
            .direction = direction_of(s.phase),
            .stage = stage,
            .chunk = chunk_of(rank, s.forward_side ? o.f_dir : o.b_dir, stage)};
  const auto [known, fresh] = known_.try_emplace({program_.slot_templates[rank][op], segment, 0}, -1);
  if (fresh) known->second = add_work(work_of(s, sent_bytes));
  span.work = known->second;
  return span;
}

Span SpanLabels::kernel(const Span& place, std::size_t op, std::size_t segment, std::size_t index) {
  const auto rank = static_cast<std::size_t>(place.rank);
  const Segment& s = segment_of(rank, op, segment);
  const auto [known, fresh] = known_.try_emplace({program_.slot_templates[rank][op], segment, index + 1}, -1);
  if (fresh) known->second = add_work(operator_work(program_.blocks[s.block], s, s.operators[index]));
  Span span = place;
  span.work = known->second;
  return span;
}

Span SpanLabels::message(std::size_t rank, const Transfer& sent, double sent_bytes) {
  if (message_ < 0) message_ = add_work({"point_to_point", 0, sent_bytes});
  return {.rank = static_cast<std::int32_t>(rank),
          .stream = Stream::pipeline,
          .micro_batch = sent.micro_batch,
          .direction = sent.forward ? Direction::forward : Direction::backward,
          .stage = sent.stage,
          .chunk = chunk_of(rank, sent.direction, sent.stage),
          .peer = sent.peer,
          .work = message_};
}

Span SpanLabels::outside_slots(std::size_t rank, std::string_view name, std::int32_t stage,
                               const std::string& class_name, double sent_bytes) {
  Span span{.rank = static_cast<std::int32_t>(rank), .stream = Stream::optimizer, .stage = stage};
  if (name != reduce_gradients && name != gather_parameters) return span;
  const auto [known, fresh] = collectives_.try_emplace({class_name, sent_bytes}, -1);
  if (fresh) known->second = add_work({class_name, 0, sent_bytes});
  span.work = known->second;
  return span;
}

std::int32_t SpanLabels::add_work(const SpanWork& work) {
  works_.push_back(work);
  return static_cast<std::int32_t>(works_.size() - 1);
}

void SpanLabels::describe(Timeline& timeline) const {
  timeline.works = works_;
  timeline.stage_layers.clear();
  for (const Stage& stage : program_.stages) timeline.stage_layers.push_back(stage.layers);
}

namespace {

using Extents = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::array<std::string_view, 6> order_of_shapes = {"gemm",     "rmsnorm", "swiglu",
                                                             "quantise", "permute", "adamw"};

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::ceil(value)); }

// Returns the format of a quantized operand, else the wider operand's.
std::string gemm_format(const Graph& graph, const Operator& op) {
  for (const TensorId id : {op.reads[0], op.reads[1]}) {
    const DataType type = graph.tensor(id).type;
    if (type == DataType::fp8) return "fp8_tensor";
    if (type == DataType::fp8_tile || type == DataType::fp8_block) return "fp8_block";
    if (is_quantized(type)) return std::string(to_string(type));
  }
  const DataType a = graph.tensor(op.reads[0]).type, b = graph.tensor(op.reads[1]).type;
  return std::string(to_string(bytes_per_element(a) >= bytes_per_element(b) ? a : b));
}

std::string plain_name(std::string name) {
  for (const std::string_view suffix : {"_dgrad", "_wgrad"})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

Extents rows_and_columns(const Tensor& tensor) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i].size;
  return {{"rows", rows}, {"columns", tensor.shape.back().size}};
}

KernelShape gemm(const Graph& graph, const Operator& op) {
  const GemmShape shape = gemm_shape(graph, op, 1);
  return {"gemm",
          plain_name(op.name),
          std::string(to_string(op.phase)),
          gemm_format(graph, op),
          {{"m", whole(shape.m)}, {"n", whole(shape.n)}, {"k", whole(shape.k)}, {"groups", whole(shape.groups)}}};
}

// Written rows are a whole number of copies of each row read.
KernelShape permutation(const Graph& graph, const Operator& op) {
  const Tensor& from = graph.tensor(op.reads[0]);
  const Tensor& to = graph.tensor(op.writes[0]);
  const std::int64_t copies = std::max<std::int64_t>(1, std::llround(to.elements() / from.elements()));
  const Extents extents = rows_and_columns(to);
  return {"permute", op.name, "", "", {{"rows", extents[0].second / copies}, extents[1], {"top_k", copies}}};
}

std::optional<KernelShape> shape_of(const Graph& graph, const Operator& op) {
  switch (op.kind) {
    case OperatorKind::matmul:
    case OperatorKind::grouped_matmul:
      return gemm(graph, op);
    case OperatorKind::rmsnorm:
      return KernelShape{"rmsnorm", op.name, "", "", rows_and_columns(graph.tensor(op.writes[0]))};
    case OperatorKind::swiglu:
      return KernelShape{"swiglu", op.name, "", "", rows_and_columns(graph.tensor(op.writes[0]))};
    case OperatorKind::cast:
      if (graph.tensor(op.writes[0]).type != DataType::fp8_tile) return std::nullopt;
      return KernelShape{"quantise", op.name, "", "", rows_and_columns(graph.tensor(op.writes[0]))};
    case OperatorKind::permute:
      return permutation(graph, op);
    default:
      return std::nullopt;
  }
}

class ShapeCollector {
 public:
  void add(const Graph& graph) {
    for (const Operator& op : graph.operators) {
      if (op.kind == OperatorKind::adamw) continue;
      auto shape = shape_of(graph, op);
      if (!shape) {
        result_.others.emplace(to_string(op.kind));
        continue;
      }
      count(std::move(*shape));
    }
  }

  // One kernel updates all units of one kind and format together.
  void add_updates(const Graph& optimizer) {
    std::map<std::string, std::int64_t> elements;
    for (const Operator& op : optimizer.operators) {
      if (op.kind != OperatorKind::adamw) continue;
      const Tensor& updated = optimizer.tensor(op.writes[0]);
      const std::string_view kind = op.name.starts_with("adamw_experts") ? "experts" : "dense";
      elements["adamw_" + std::string(kind) + "_" + std::string(to_string(updated.type))] += whole(updated.elements());
    }
    for (const auto& [name, sum] : elements) count({"adamw", name, "", "", {{"elements", sum}}});
  }

  KernelShapes finish() {
    std::ranges::stable_sort(result_.shapes, {},
                             [](const KernelShape& shape) { return std::ranges::find(order_of_shapes, shape.op); });
    return std::move(result_);
  }

 private:
  void count(KernelShape shape) {
    const auto key = std::tuple(shape.op, shape.phase, shape.format, shape.extents);
    const auto [known, fresh] = index_.try_emplace(key, result_.shapes.size());
    if (fresh) result_.shapes.push_back(std::move(shape));
    ++result_.shapes[known->second].count;
  }

  KernelShapes result_;
  std::map<std::tuple<std::string, std::string, std::string, Extents>, std::size_t> index_;
};

}  // namespace

KernelShapes kernel_shapes(const StepProgram& program) {
  ShapeCollector collector;
  for (const Stage& stage : program.stages)
    for (const std::uint16_t block : program.stage_kinds[stage.kind].blocks) collector.add(program.blocks[block]);
  for (const Graph& optimizer : program.stage_optimizers) {
    collector.add(optimizer);
    collector.add_updates(optimizer);
  }
  return collector.finish();
}

}  // namespace plumbline::model
