#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/plan/layout.h"
#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

std::optional<Error> refuse(const Plan& plan, std::string key, std::string message, std::string hint) {
  return plan_error(plan, ErrorKind::infeasible, std::move(key), std::move(message), std::move(hint));
}

std::string nearest_divisors(std::int64_t of, std::int64_t wanted) {
  std::int64_t below = std::min(wanted, of), above = std::min(wanted, of);
  while (of % below != 0) --below;
  while (of % above != 0) ++above;
  return below == above ? fmt::format("use {}", below) : fmt::format("use {} or {}", below, above);
}

std::optional<Error> check_group(const Plan& plan, const Layout& layout) {
  const std::string key = "parallelism.shard_group";
  const std::int64_t group = plan.parallelism.shard_group;
  if (group == 0) return std::nullopt;
  if (plan.parallelism.zero_stage == 0)
    return refuse(plan, key, "nothing is sharded with zero_stage 0", "set parallelism.zero_stage to 1, 2 or 3 (FSDP)");
  if (layout.two_directions)
    return refuse(plan, key,
                  fmt::format("{} keeps every stage on two pipeline ranks, over which it shards", plan.schedule.kind),
                  "set it to 0");
  if (layout.dense_group % group != 0)
    return refuse(
        plan, key,
        fmt::format("groups of {} do not divide the {} ranks that reduce a gradient", group, layout.dense_group),
        nearest_divisors(layout.dense_group, group));
  // Distances in ranks of the stage: from one group to the next, and from one replica of an expert to the next.
  const std::int64_t span = group * layout.dense_stride, experts = layout.expert_stride;
  if (span % experts != 0 && experts % span != 0)
    return refuse(plan, key,
                  fmt::format("a group over {} ranks is neither a multiple nor a divisor of the {} over which experts "
                              "are spread",
                              span, experts),
                  fmt::format("use {}", std::max<std::int64_t>(1, experts / layout.dense_stride)));
  return std::nullopt;
}

// Refuses a step whose collectives are too many to be held: a layer has up to three of them for each micro-batch, two
// gathers and a reduction, and of zero_stage 2 one. Each takes about 200 bytes while a step is predicted.
std::optional<Error> check_collectives(const Plan& plan, const Layout& layout) {
  constexpr std::int64_t most = 10'000'000;
  const std::int64_t zero_stage = plan.parallelism.zero_stage;
  if (zero_stage < 2) return std::nullopt;
  std::int64_t layers = 0;
  for (const auto& stage : layout.stage_layers) layers += std::ssize(stage);
  const std::int64_t of_micro_batch = std::max<std::int64_t>(1, layers) * (zero_stage == 3 ? 3 : 1);
  if (layout.micro_batches <= most / of_micro_batch) return std::nullopt;
  return refuse(plan, "batch.global_batch_size",
                fmt::format("{} micro-batches of {} layers have up to {} gathers and reductions each under zero_stage "
                            "{}: more than {} are not predicted",
                            layout.micro_batches, layers, of_micro_batch, zero_stage, most),
                fmt::format("use at most {} sequences, or zero_stage 1",
                            most / of_micro_batch * layout.data * plan.batch.micro_batch_size));
}

}  // namespace

ShardGroup shard_group(const Plan& plan, const Layout& layout, bool expert) {
  const std::int64_t ranks = expert ? layout.expert_group : layout.dense_group;
  const std::int64_t stride = expert ? layout.expert_stride : layout.dense_stride;
  if (plan.parallelism.zero_stage == 0) return {1, stride, ranks, stride};
  const std::int64_t wanted = plan.parallelism.shard_group * layout.dense_stride / stride;
  const std::int64_t shards = plan.parallelism.shard_group == 0 ? ranks : std::max<std::int64_t>(1, wanted);
  return {shards, stride, ranks / shards, stride * shards};
}

std::optional<Error> check_sharding(const Plan& plan, const Layout& layout) {
  const auto& parallelism = plan.parallelism;
  if (parallelism.zero_stage >= 2 && layout.two_directions)
    return refuse(
        plan, "parallelism.zero_stage",
        fmt::format(
            "{} keeps every stage on two pipeline ranks, whose micro-batches would have to wait for each other for "
            "every gather and reduction",
            plan.schedule.kind),
        "use 0 or 1, or a schedule of one direction");
  if (auto error = check_group(plan, layout)) return error;
  if (auto error = check_collectives(plan, layout)) return error;
  if (parallelism.synchronization_interval > 1 && parallelism.zero_stage > 0 &&
      shard_group(plan, layout, false).replicas == 1)
    return refuse(plan, "parallelism.synchronisation_interval",
                  "between two reductions every replica updates all parameters by itself, and states that are sharded "
                  "over all ranks have no replicas",
                  "set it to 1, parallelism.zero_stage to 0, or parallelism.shard_group to the ranks of a replica");
  return std::nullopt;
}

}  // namespace plumbline::model
