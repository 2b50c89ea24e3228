#include "real/cuda/kernels/kernels.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

RouterRule rule_of(const Call& call) {
  const auto& a = call.attributes<model::RouterAttributes>();
  RouterRule rule;
  rule.experts = static_cast<int>(a.experts);
  rule.experts_per_token = static_cast<int>(a.experts_per_token);
  rule.groups = static_cast<int>(a.groups);
  rule.groups_per_token = static_cast<int>(a.groups_per_token);
  rule.group_score_experts = a.group_score_experts;
  rule.sigmoid = a.score == model::ScoreFunction::sigmoid;
  rule.normalize = a.normalize;
  rule.scaling_factor = static_cast<float>(a.scaling_factor);
  return rule;
}

Status refusal(const RouterRule& rule) {
  if (rule.experts <= most_routed_experts && rule.experts_per_token <= most_experts_per_token) return {};
  return {"the router takes at most " + std::to_string(most_routed_experts) + " experts and " +
          std::to_string(most_experts_per_token) + " per token"};
}

}  // namespace

Status router(const Call& call) {
  const RouterRule rule = rule_of(call);
  PLUMBLINE_TRY(refusal(rule));
  float* const loads = call.outs() > 2 ? call.out(2).data<float>() : nullptr;
  return outcome(route(rule, call.in(0).view(), call.in(1).data<float>(), call.out(0).data<std::int32_t>(),
                       call.out(1).data<float>(), loads, call.stream),
                 "the choice of experts");
}

Status router_grad(const Call& call) {
  const RouterRule rule = rule_of(call);
  PLUMBLINE_TRY(refusal(rule));
  return outcome(route_gradient(rule, call.in(0).data<float>(), call.in(1).view(), call.in(2).data<std::int32_t>(),
                                call.out(0).view(), call.stream),
                 "the gradient of the choice of experts");
}

}  // namespace plumbline::real::cuda
