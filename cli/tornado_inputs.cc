#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/tornado.h"

namespace plumbline::cli {
namespace {

constexpr double usual_change = 0.2;       // where no uncertainty is stated
constexpr double usual_imbalance = 0.1;    // looked at where the plan says that experts are even
constexpr double gigabit_per_byte = 8e-9;  // Gb/s in B/s

// Constants of the profile that answer one question.
struct Group {
  std::string_view name, pattern;
  bool of_experts = false;  // matters with expert parallelism only
};
constexpr Group groups[] = {
    {"GEMM time", "gemm.*.k_time"},
    {"attention rate", "attention.*_rate"},
    {"memory bandwidth", "memory.*.bandwidth"},
    {"launch gap", "kernel.launch_gap"},
    {"exchange rate between nodes", "exchange.*.nic_rate*", true},
    {"exchange rate inside a node", "exchange.nvlink_rate", true},
    {"meeting of expert ranks", "exchange.notify", true},
    {"network rate of messages", "network.nic_rate"},
    {"latency of collectives", "collective.*latency_scale"},
};

std::string setting_text(std::string_view key, double value) { return fmt::format("{}={}", key, value); }

std::string change_text(char sign, double least, double most) {
  return least == most ? fmt::format("{}{:.3g} %", sign, most * 100)
                       : fmt::format("{}{:.3g} to {:.3g} %", sign, least * 100, most * 100);
}

void add_group(const sim::Inputs& inputs, const Group& group, std::vector<TornadoInput>& found) {
  TornadoSetting down, up;
  double least = 1, most = 0;
  for (const model::Parameter& constant : inputs.profile.parameters()) {
    if (!model::name_fits(constant.name, group.pattern) || constant.value == 0) continue;
    const double change = constant.relative_uncertainty.value_or(usual_change);
    if (change == 0) continue;
    least = std::min(least, change);
    most = std::max(most, change);
    const std::string key = "profile." + constant.name;
    down.overrides.push_back(setting_text(key, constant.value * (1 - change)));
    up.overrides.push_back(setting_text(key, constant.value * (1 + change)));
  }
  if (down.overrides.empty()) return;
  down.text = change_text('-', least, most);
  up.text = change_text('+', least, most);
  found.push_back({std::string(group.name), fmt::format("profile.{}", group.pattern), {down, up}});
}

void add_key(std::string_view name, std::string_view key, double value, std::vector<TornadoInput>& found) {
  TornadoInput input{std::string(name), std::string(key), {}};
  for (const double factor : {1 - usual_change, 1 + usual_change})
    input.settings.push_back({fmt::format("{:.6g}", value * factor), {setting_text(key, value * factor)}});
  found.push_back(std::move(input));
}

void add_whole_key(std::string_view name, std::string_view key, std::int64_t value, std::vector<TornadoInput>& found) {
  TornadoInput input{std::string(name), std::string(key), {}};
  for (const double factor : {1 - usual_change, 1 + usual_change}) {
    const auto changed = static_cast<std::int64_t>(std::llround(static_cast<double>(value) * factor));
    if (changed != value) input.settings.push_back({fmt::format("{}", changed), {fmt::format("{}={}", key, changed)}});
  }
  if (!input.settings.empty()) found.push_back(std::move(input));
}

void add_links(const sim::Inputs& inputs, std::vector<TornadoInput>& found) {
  const model::ClusterShape& cluster = inputs.cluster;
  if (cluster.nodes() > 1 && cluster.nic_bandwidth.value() > 0)
    add_key("NIC bandwidth", "cluster.nic_gbps", cluster.nic_bandwidth.value() * gigabit_per_byte, found);
  if (cluster.gpus == 1 || cluster.gpus_per_node == 1) return;
  for (const model::Parameter& constant : cluster.parameters) {
    if (constant.name == "node.gpu_bandwidth" || constant.name == "node.peer_bandwidth")
      add_key("bandwidth inside a node", "topology." + constant.name, constant.value, found);
  }
}

void add_experts(const model::Plan& plan, std::vector<TornadoInput>& found) {
  constexpr std::string_view key = "routing.imbalance";
  if (!plan.routing.rows_per_rank.empty()) return;
  if (plan.routing.imbalance > 0) {
    add_key("uneven experts", key, plan.routing.imbalance, found);
  } else {
    found.push_back({"uneven experts",
                     std::string(key),
                     {{fmt::format("{:.6g}", usual_imbalance), {setting_text(key, usual_imbalance)}}}});
  }
}

}  // namespace

std::vector<TornadoInput> usual_inputs(const sim::Inputs& inputs) {
  const model::Plan& plan = inputs.plan;
  const bool experts = plan.parallelism.expert > 1;
  std::vector<TornadoInput> found;
  add_links(inputs, found);
  for (const Group& group : groups)
    if (experts || !group.of_experts) add_group(inputs, group, found);
  if (experts) add_experts(plan, found);
  if (plan.overlap.communication_sms > 0)
    add_whole_key("communication SMs", "overlap.communication_sms", plan.overlap.communication_sms, found);
  if (plan.run.tokens) add_key("tokens of the run", "run.tokens", *plan.run.tokens, found);
  if (plan.run.price_usd_per_gpu_hour > 0)
    add_key("price of a GPU-hour", "run.price_usd_per_gpu_hour", plan.run.price_usd_per_gpu_hour, found);
  return found;
}

TornadoInput input_of(const SweepAxis& axis) {
  TornadoInput input{axis.key, axis.key, {}};
  for (const SweepValue& value : axis.values)
    input.settings.push_back({value.text, {fmt::format("{}={}", axis.key, value.text)}});
  return input;
}

}  // namespace plumbline::cli
