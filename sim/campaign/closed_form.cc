#include "sim/campaign/closed_form.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/economics/economics.h"
#include "model/memory/memory.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {
namespace {

double seconds_at(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

// Returns the mean share of replicas that train where nodes in repair are a birth-death chain: new ones come in
// proportion to the GPUs at work, and each is back at its own time. A run that is not elastic trains until one more
// node than it has spares is in repair, with the probabilities of Erlang's loss formula, which are those of any
// distribution.
double training_share(double in_repair, const CampaignInput& input, std::int64_t nodes) {
  const auto share = [&](std::int64_t count) {
    const std::int64_t left = std::min(nodes, nodes + input.spare_nodes - count);
    if (!input.elastic) return left < nodes ? 0.0 : 1.0;
    return static_cast<double>(left / input.replica_nodes) / static_cast<double>(nodes / input.replica_nodes);
  };
  double probability = 1, all = 1, training = 1;  // not yet normalized
  for (std::int64_t count = 0; share(count) > 0 && probability > 0; ++count) {
    probability *= in_repair * share(count) / static_cast<double>(count + 1);
    all += probability;
    training += probability * share(count + 1);
    constexpr double large = 1e200;
    if (all < large) continue;
    for (double* value : {&probability, &all, &training}) *value /= large;
  }
  return training / all;
}

// Returns the mean factor on steps by what slows, each kind by itself.
double slow_factor(const CampaignInput& input) {
  double factor = 1;
  for (const FailureMode& mode : input.failures) {
    const double rate = mode.per_gpu_hour / 3600 * static_cast<double>(input.gpus);
    if (mode.slows <= 1 || rate <= 0) continue;
    double lasts = mode.lasts_s > 0 ? mode.lasts_s : std::numeric_limits<double>::infinity();
    if (mode.lasts_s <= 0 && input.health_check_every_s > 0) lasts = input.health_check_every_s / 2;
    if (mode.detect_s > 0) lasts = std::min(lasts, mode.detect_s);
    const double whole = rate * ideal_seconds(input.phases);
    const double share = std::isfinite(lasts) ? 1 - std::exp(-rate * lasts) : 1 + std::expm1(-whole) / whole;
    factor += share * (mode.slows - 1);
  }
  return factor;
}

double nodes_factor(const CampaignInput& input) {
  const std::int64_t nodes = (input.gpus + input.gpus_per_node - 1) / input.gpus_per_node;
  double in_repair = 0, gone = 0;
  for (const FailureMode& mode : input.failures) {
    if (mode.repair_s <= 0) continue;
    const double rate = mode.per_gpu_hour / 3600 * static_cast<double>(input.gpus * mode.nodes);
    if (std::isfinite(mode.repair_s))
      in_repair += rate * mode.repair_s;
    else
      gone += rate * ideal_seconds(input.phases);
  }
  if (gone > static_cast<double>(input.spare_nodes) && !input.elastic) return 0;
  return training_share(in_repair, input, nodes);
}

}  // namespace

double checkpoint_bytes(const model::Plan& plan, const model::ModelMetrics& metrics) {
  return metrics.trained_parameters.value_or(metrics.parameters + metrics.prediction_parameters) *
         model::state_bytes_per_parameter(plan);
}

CheckpointPolicy checkpoint_policy(CheckpointKind kind, bool on_ssd, double bytes, const model::ClusterShape& cluster,
                                   const CheckpointStorage& storage) {
  const double of_node = bytes / static_cast<double>(cluster.nodes()),
               of_gpu = bytes / static_cast<double>(cluster.gpus);
  const double copied_s = seconds_at(of_gpu, cluster.device.host_bandwidth.value());
  const double stored_s = std::max(seconds_at(bytes, storage.all), seconds_at(of_node, storage.node));
  const bool neighbor = kind == CheckpointKind::neighbor;
  CheckpointPolicy policy;
  double written_s = on_ssd ? seconds_at(of_node, storage.ssd) : stored_s;
  if (neighbor) written_s = seconds_at(of_gpu, cluster.inter_node_bandwidth().value());
  policy.load_s = copied_s + written_s;
  policy.stall_s = copied_s + (neighbor ? storage.neighbor_stall_s : storage.stall_s);
  policy.write_s = policy.stall_s + written_s + (neighbor ? 0 : storage.commit_s);
  if (kind == CheckpointKind::synchronous) policy.stall_s = policy.write_s;
  if (!neighbor && !on_ssd) return policy;
  policy.copies = neighbor ? 2 : 1;
  policy.storage_every = storage.every;
  policy.storage_write_s = policy.write_s + stored_s + storage.commit_s;
  policy.storage_load_s = copied_s + stored_s;
  return policy;
}

double ideal_seconds(const std::vector<CampaignPhase>& phases) {
  double seconds = 0;
  for (const CampaignPhase& phase : phases) seconds += phase.tokens / phase.tokens_per_step * phase.step_s;
  return seconds;
}

double young_interval(double stall_s, double between_s) { return std::sqrt(2 * stall_s * between_s); }

double daly_interval(double stall_s, double between_s) {
  if (stall_s >= 2 * between_s) return between_s;
  const double part = stall_s / (2 * between_s);
  return young_interval(stall_s, between_s) * (1 + std::sqrt(part) / 3 + part / 9) - stall_s;
}

double seconds_between_failures(const CampaignInput& input) {
  double rate = 0;
  for (const FailureMode& mode : input.failures)
    if (mode.slows <= 1) rate += mode.per_gpu_hour / 3600 * static_cast<double>(input.gpus);
  return rate > 0 ? 1 / rate : std::numeric_limits<double>::infinity();
}

double down_seconds(const CampaignInput& input) {
  double rate = 0, seconds = 0;
  for (const FailureMode& mode : input.failures) {
    if (mode.slows > 1) continue;
    rate += mode.per_gpu_hour;
    seconds += mode.per_gpu_hour * (mode.detect_s + (mode.repair_s > 0 ? input.swap_s : 0));
  }
  return (rate > 0 ? seconds / rate : 0) + input.restart_s + input.checkpoint.load_s;
}

double shortest_interval(const CampaignInput& input) {
  double step_s = 0;
  for (const CampaignPhase& phase : input.phases) step_s = std::max(step_s, phase.step_s);
  return std::max(step_s, input.checkpoint.write_s - input.checkpoint.stall_s);
}

double closed_form_interval(const CampaignInput& input) {
  const double between = seconds_between_failures(input), ideal = ideal_seconds(input.phases);
  if (!std::isfinite(between)) return ideal;
  return std::clamp(daly_interval(input.checkpoint.stall_s, between), std::min(shortest_interval(input), ideal), ideal);
}

double expected_goodput(const CampaignInput& input) {
  const CheckpointPolicy& policy = input.checkpoint;
  const double between = seconds_between_failures(input);
  const double lag = std::max(0.0, policy.write_s - policy.stall_s);
  const double interval = policy.interval_s > 0 ? policy.pause_s() : closed_form_interval(input);
  // A period of checkpoints takes M exp((R + lag) / M) (exp((interval + stall) / M) - 1) with failures every M.
  double period = interval + policy.stall_s;
  if (std::isfinite(between))
    period = between * std::exp((down_seconds(input) + lag) / between) * std::expm1(period / between);
  else if (interval >= ideal_seconds(input.phases))
    period = interval;
  double pauses = 0;
  if (input.planned_stops_per_day > 0)
    pauses += input.planned_stops_per_day / 86400 *
              (input.planned_stop_s + std::max(policy.write_s, policy.stall_s) + input.restart_s + policy.load_s);
  if (input.health_check_every_s > 0) pauses += input.health_check_s / input.health_check_every_s;
  return nodes_factor(input) * interval / period / (slow_factor(input) + pauses);
}

std::int64_t replica_nodes(const model::Plan& plan, std::int64_t gpus_per_node) {
  const auto& degrees = plan.parallelism;
  return model::ceil_div(degrees.tensor * degrees.context * degrees.pipeline, gpus_per_node);
}

std::optional<model::RunCost> predicted_run(const Inputs& inputs, const model::Plan& plan,
                                            const model::StepTimes& step) {
  std::optional<model::CampaignGoodput> goodput;
  if (inputs.campaign && plan.run.tokens) {
    CampaignInput campaign = *inputs.campaign;
    const auto tokens_per_step = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
    campaign.replica_nodes = replica_nodes(plan, campaign.gpus_per_node);
    campaign.phases = {{"", *plan.run.tokens, tokens_per_step, step.time_s}};
    const double value = expected_goodput(campaign);
    goodput = {value, value > 0 ? "of the campaign in closed form" : "as the campaign never finishes"};
  }
  return model::run_cost(plan, step.time_s, inputs.cluster, step.gpu_power_w, goodput);
}

}  // namespace plumbline::sim
