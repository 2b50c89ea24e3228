#include <algorithm>
#include <utility>

#include "calibrate/validate/questions.h"
#include "model/cost/communication_cost.h"
#include "model/graph/graph.h"
#include "model/program/routing.h"

namespace plumbline::calibrate {
namespace {

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
