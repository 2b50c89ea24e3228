#include "model/plan/detail/division_rules.h"

#include <fmt/format.h>

#include <utility>

namespace plumbline::model {
namespace {

// Returns the largest allowed degree below `found` and the smallest above it, up to `limit`, as a hint.
std::string nearest_degrees(std::int64_t found, std::int64_t limit, const Divisions::Allowed& allowed) {
  std::int64_t below = found, above = found;
  while (below > 0 && !allowed(below)) --below;
  while (above <= limit && !allowed(above)) ++above;
  if (above > limit) return fmt::format("use {}", below);
  return below > 0 ? fmt::format("use {} or {}", below, above) : fmt::format("use {}", above);
}

void check_experts(Divisions& rules, const Plan& plan, const Architecture& model) {
  const MixtureOfExperts& experts = model.experts;
  const auto& degrees = plan.parallelism;
  if (experts.routed_experts == 0) {
    rules.require(
        "parallelism.expert_tensor", degrees.expert_tensor, [](std::int64_t d) { return d == 1; },
        fmt::format("{} has no experts to divide", model.name));
    return;
  }
  rules.require_divides("parallelism.expert_tensor", degrees.expert_tensor, experts.intermediate_size,
                        "columns of an expert");
  if (experts.shared_experts > 0)
    rules.require_divides("parallelism.tensor", degrees.tensor, experts.shared_width(),
                          "columns of the shared experts");
  // Without sequence parallelism every tensor rank holds all tokens and would send each of them to its experts again.
  rules.require(
      "parallelism.tensor", degrees.tensor, [&](std::int64_t d) { return d == 1 || degrees.sequence; },
      "tensor parallelism of a model with experts needs sequence parallelism (parallelism.sequence = true): else each "
      "token reaches its experts once per tensor rank");
}

}  // namespace

void Divisions::require(const std::string& key, std::int64_t degree, const Allowed& allowed, std::string rule) {
  if (error_ || allowed(degree)) return;
  constexpr std::int64_t most = 4096;  // larger degrees exist nowhere
  error_ = plan_error(plan_, ErrorKind::infeasible, key, std::move(rule),
                      nearest_degrees(degree, std::max(most, degree), allowed));
}

void Divisions::require_divides(const std::string& key, std::int64_t degree, std::int64_t whole,
                                std::string_view what) {
  require(
      key, degree, [whole](std::int64_t d) { return whole % d == 0; },
      fmt::format("{} {} do not divide over {} ranks", whole, what, degree));
}

// Fewer key-value heads than ranks are copied, and each needs the same whole number of copies. With a latent every head
// has its own keys and values.
void Divisions::require_heads(const std::string& key, std::int64_t tensor, const Architecture& model) {
  require_divides(key, tensor, model.heads, "attention heads");
  const Recurrence& r = model.recurrence;
  if (r.value_heads > 0)
    require(
        key, tensor,
        [&](std::int64_t d) { return r.value_heads % d == 0 && (r.key_heads % d == 0 || d % r.key_heads == 0); },
        fmt::format(
            "{} heads of the recurrence do not divide over {} ranks, or its {} keys neither do nor {} ranks into "
            "copies of them",
            r.value_heads, tensor, r.key_heads, tensor));
  if (model.attention == AttentionKind::multi_head_latent) return;
  const std::int64_t heads = model.key_value_heads;
  require(
      key, tensor, [&](std::int64_t d) { return model.heads % d == 0 && (heads % d == 0 || d % heads == 0); },
      fmt::format("{} key-value heads neither divide over {} ranks nor {} ranks into copies of them", heads, tensor,
                  tensor));
}

std::optional<Error> check_divisions(const Plan& plan, const Architecture& model) {
  const auto& degrees = plan.parallelism;
  Divisions rules(plan);
  rules.require_heads("parallelism.tensor", degrees.tensor, model);
  rules.require_divides("parallelism.tensor", degrees.tensor, model.intermediate_size, "columns of the MLP");
  check_experts(rules, plan, model);
  const std::int64_t length = plan.batch.sequence_length;
  // Each rank takes one piece from the front of the sequence and one from its back, so that causal work is even.
  rules.require(
      "parallelism.context", degrees.context, [length](std::int64_t d) { return d == 1 || length % (2 * d) == 0; },
      fmt::format("{} tokens do not divide into two pieces for each of {} context ranks", length, degrees.context));
  rules.require(
      "parallelism.context", degrees.context,
      [&](std::int64_t d) { return d == 1 || model.recurrence.value_heads == 0; },
      fmt::format("layers of {} carry a state along the sequence, which no operator here sends between context ranks",
                  model.name));
  rules.require(
      "parallelism.context", degrees.context, [&](std::int64_t d) { return d == 1 || model.sparse.tokens == 0; },
      fmt::format("the tokens that the indexer of {} chooses may be on any context rank, and no operator brings them",
                  model.name));
  if (degrees.sequence)
    rules.require(
        "parallelism.tensor", degrees.tensor, [&](std::int64_t d) { return length % (degrees.context * d) == 0; },
        fmt::format("{} tokens do not divide over {} context and {} tensor ranks, as sequence parallelism needs",
                    length, degrees.context, degrees.tensor));
  return rules.error();
}

}  // namespace plumbline::model
