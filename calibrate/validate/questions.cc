#include "calibrate/validate/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "model/cost/communication_cost.h"
#include "model/graph/builder.h"
#include "model/program/routing.h"

namespace plumbline::calibrate {
namespace {

using model::CoRunner;
using model::DataType;
using model::OneOperator;
using model::OperatorKind;

struct WorkKind {
  std::string_view name;
  OperatorKind kind;
};
constexpr WorkKind kinds[] = {
    {"cast", OperatorKind::cast}, {"norm", OperatorKind::rmsnorm}, {"norm_gradient", OperatorKind::rmsnorm_grad}};

struct CoRunnerWord {
  std::string_view name;
  CoRunner co_runner;
};
constexpr CoRunnerWord co_runners[] = {
    {"transfer", CoRunner::transferring}, {"wait", CoRunner::waiting}, {"gemm", CoRunner::computing}};

template <class Entry, std::size_t count>
const Entry* named(const Entry (&entries)[count], std::string_view name) {
  const auto* found = std::ranges::find(entries, name, &Entry::name);
  return found == std::end(entries) ? nullptr : found;
}

template <class Entry, std::size_t count>
model::Result<void> check_word(const Entry (&entries)[count], std::string_view word, const char* key) {
  if (named(entries, word) != nullptr) return {};
  std::vector<std::string> known;
  for (const Entry& entry : entries) known.emplace_back(entry.name);
  return model::wrong_input(key, fmt::format("'{}' is not known", word),
                            fmt::format("known: {}", fmt::join(known, ", ")));
}

model::Graph gemm(const GemmQuestion& q) {
  const bool grouped = q.groups > 1;
  const bool quantized = is_quantized(q.type), stored = is_quantized(model::weight_type(q.type));
  const DataType weights = quantized && !stored ? model::activation_type(q.type) : model::weight_type(q.type);
  const DataType result = quantized ? DataType::bf16 : model::activation_type(q.type);
  return OneOperator(grouped ? OperatorKind::grouped_matmul : OperatorKind::matmul,
                     model::MatmulAttributes{.transpose_b = true})
      .read({q.groups * q.m, q.k}, model::activation_type(q.type))
      .read(grouped ? std::vector{q.groups, q.n, q.k} : std::vector{q.n, q.k}, weights)
      .write({q.groups * q.m, q.n}, result)
      .graph();
}

model::Graph memory_bound(const SlowdownQuestion& q) {
  const std::vector<std::int64_t> x = {q.rows, q.columns}, scale = {q.columns};
  constexpr DataType type = DataType::bf16;
  const OperatorKind kind = named(kinds, q.kind)->kind;
  if (kind == OperatorKind::rmsnorm) return OneOperator(kind).read(x, type).read(scale, type).write(x, type).graph();
  if (kind == OperatorKind::rmsnorm_grad)
    return OneOperator(kind).read(x, type).read(x, type).read(scale, type).write(x, type).write(scale, type).graph();
  return OneOperator(kind, model::CastAttributes{}).read(x, type).write(x, DataType::fp8_tile).graph();
}

using Direction = AllToAllQuestion::Direction;
using Link = AllToAllQuestion::Link;

model::RoutingSpread spread_of(const AllToAllQuestion& q, std::int64_t gpus_per_node) {
  model::MixtureOfExperts experts;
  experts.routed_experts = q.experts;
  experts.groups = std::max<std::int64_t>(q.ranks / gpus_per_node, 1);
  experts.groups_per_token = std::min(experts.groups, q.nodes_per_token);
  // A token cannot select more experts than its groups contain.
  experts.experts_per_token = std::min(q.experts_per_token, q.experts / experts.groups * experts.groups_per_token);
  return model::routing_spread(experts, experts.groups_per_token, q.ranks, std::min(q.ranks, gpus_per_node));
}

}  // namespace

double GemmQuestion::flops() const { return 2.0 * static_cast<double>(groups * m) * static_cast<double>(n * k); }

model::Result<void> check_question(const KernelQuestion& question) {
  const auto* slowdown = std::get_if<SlowdownQuestion>(&question);
  if (slowdown == nullptr) return {};
  TRY(check_word(kinds, slowdown->kind, "memory_factor.class"));
  return check_word(co_runners, slowdown->co_runner, "memory_factor.beside");
}

model::Result<SingleKernels> SingleKernels::make(const model::Profile& profile, const model::Device& device) {
  return SingleKernels(TRY(model::KernelCost::make(profile, device)), device.sms);
}

double SingleKernels::answer(const KernelQuestion& question) const {
  return std::visit([this](const auto& q) { return ask(q); }, question);
}

double SingleKernels::seconds(const model::Graph& graph, const model::Conditions& conditions) const {
  const model::KernelTime time = cost_.time(graph, graph.operators.front(), conditions);
  return time.seconds - time.gaps;
}

double SingleKernels::ask(const GemmQuestion& question) const {
  return seconds(gemm(question), {.sms = question.sms > 0 ? question.sms : sms_});
}

double SingleKernels::ask(const SlowdownQuestion& question) const {
  const model::Graph graph = memory_bound(question);
  const CoRunner co_runner = named(co_runners, question.co_runner)->co_runner;
  return seconds(graph, {.sms = sms_, .held = question.held, .co_runner = co_runner}) / seconds(graph, {.sms = sms_});
}

SingleAllToAlls::SingleAllToAlls(model::Profile profile, model::ClusterShape cluster)
    : profile_(std::move(profile)), cluster_(std::move(cluster)) {}

model::Result<SingleAllToAlls> SingleAllToAlls::make(const model::Profile& profile,
                                                     const model::ClusterShape& cluster) {
  // Which constants can be missing does not depend on the group.
  TRY(model::CommunicationCost::make(profile, cluster, {}, {}));
  return SingleAllToAlls(profile, cluster);
}

double SingleAllToAlls::rate(const AllToAllQuestion& question) const {
  const model::RoutingSpread spread = spread_of(question, cluster_.gpus_per_node);
  const bool sends = question.direction == Direction::dispatch;
  const model::DataType type = sends ? model::activation_type(question.dispatched) : model::DataType::bf16;
  const auto token_bytes =
      static_cast<std::int64_t>(static_cast<double>(question.hidden) * model::bytes_per_element(type));
  const auto bytes = static_cast<double>(token_bytes);
  const auto cost =
      model::CommunicationCost::make(profile_, cluster_, {spread, question.ranks, 1, bytes, bytes}, {}).value();
  model::Graph graph;
  graph.tensors = {{"x", {model::Dimension{question.tokens}, model::Dimension{question.hidden}}, type}};
  model::Operator op;
  op.kind = sends ? model::OperatorKind::dispatch : model::OperatorKind::combine;
  op.reads = op.writes = {0};
  op.attributes = model::DispatchAttributes{question.experts, question.experts / question.ranks,
                                            question.experts_per_token, token_bytes};
  const model::AllToAllTime time = cost.all_to_all(graph, op);
  const double received = static_cast<double>(question.tokens * token_bytes) * spread.ranks_per_token;
  return (question.link == Link::nic ? time.network_bytes : received) / time.alone;
}

}  // namespace plumbline::calibrate
