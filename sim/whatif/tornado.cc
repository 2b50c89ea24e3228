#include "sim/whatif/tornado.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "model/economics/ownership.h"
#include "model/program/program.h"
#include "model/routing/rank_rows.h"
#include "model/routing/served_load.h"

namespace plumbline::sim {

namespace {

constexpr double least_width = 1e-9;  // relative: a smaller change counts as none

std::optional<TornadoSpan> span_of(std::optional<double> base, const std::vector<PointResult>& points,
                                   std::size_t metric) {
  if (!base) return std::nullopt;
  TornadoSpan span{*base, *base, std::nullopt, std::nullopt};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto value = tornado_value(points[i], metric);
    if (!value) continue;
    if (*value < span.least) span.least = *value, span.least_setting = i;
    if (*value > span.most) span.most = *value, span.most_setting = i;
  }
  return span;
}

constexpr double usual_change = 0.2;   // without a stated uncertainty
constexpr double deepest_fall = 0.99;  // for larger uncertainties: no rate is 0

// Constants of the profile that change together.
struct ConstantGroup {
  std::string_view name, pattern;
  bool of_experts = false;  // used with expert parallelism only
  bool of_serving = false;  // used by deployments only
};
constexpr ConstantGroup groups[] = {
    {"GEMM time", "gemm.*.k_time"},
    {"attention rate", "attention.*_rate"},
    {"memory bandwidth", "memory.*.bandwidth"},
    {"launch gap", "kernel.launch_gap"},
    {"all-to-all rate between nodes", "exchange.*.nic_rate*", true},
    {"all-to-all rate inside a node", "exchange.nvlink_rate", true},
    {"barrier of expert ranks", "exchange.notify", true},
    {"network rate", "network.nic_rate"},
    {"latency of collectives", "collective.*latency_scale"},
    {"bandwidth of GEMMs of few rows", "gemm.*small_m_bandwidth", false, true},
    {"bandwidth of decode attention", "cached_attention.*.bandwidth", false, true},
    {"start of the engine's all-reduce", "collective.custom.*base", false, true},
    {"start of dispatch and combine", "exchange.low_latency.*start", true, true},
    {"the engine between steps", "serving.step", false, true},
};

std::string setting_text(std::string_view key, double value) { return fmt::format("{}={}", key, value); }

// One end of a group. Its constants change together, each by its own relative amount.
class End {
 public:
  explicit End(int sign) : sign_(sign) {}

  void add(const model::Parameter& constant, double change) {
    least_ = std::min(least_, change);
    most_ = std::max(most_, change);
    setting_.changes.push_back(setting_text("profile." + constant.name, constant.value * (1 + sign_ * change)));
  }
  // Returns nothing when no constant was added.
  std::optional<TornadoSetting> take() {
    if (setting_.changes.empty()) return std::nullopt;
    const char sign = sign_ < 0 ? '-' : '+';
    setting_.text = least_ == most_ ? fmt::format("{}{:.3g} %", sign, most_ * 100)
                                    : fmt::format("{}{:.3g} to {:.3g} %", sign, least_ * 100, most_ * 100);
    return std::move(setting_);
  }

 private:
  int sign_;
  double least_ = std::numeric_limits<double>::infinity(), most_ = 0;
  TornadoSetting setting_;
};

void add_group(const Inputs& inputs, const ConstantGroup& group, std::vector<TornadoInput>& found) {
  End down(-1), up(+1);
  for (const model::Parameter& constant : inputs.profile.parameters()) {
    if (!model::name_fits(constant.name, group.pattern) || constant.value == 0) continue;
    const double change = constant.relative_uncertainty.value_or(usual_change);
    if (change == 0) continue;
    down.add(constant, std::min(change, deepest_fall));
    up.add(constant, change);
  }
  TornadoInput input{std::string(group.name), fmt::format("profile.{}", group.pattern), {}};
  for (End* end : {&down, &up})
    if (auto setting = end->take()) input.settings.push_back(std::move(*setting));
  if (!input.settings.empty()) found.push_back(std::move(input));
}

void add_values(std::string_view name, std::string_view key, std::initializer_list<double> values,
                std::vector<TornadoInput>& found) {
  TornadoInput& input = found.emplace_back(TornadoInput{std::string(name), std::string(key), {}});
  for (const double value : values)
    input.settings.push_back({fmt::format("{:.6g}", value), {setting_text(key, value)}});
}

// Adds a number that moves by the usual change, which needs no unit.
void add_key(std::string_view name, std::string_view key, double value, std::vector<TornadoInput>& found) {
  TornadoInput& input = found.emplace_back(TornadoInput{std::string(name), std::string(key), {}});
  for (const double change : {-usual_change, usual_change})
    input.settings.push_back({fmt::format("{:+.3g} %", change * 100), {setting_text(key, value * (1 + change))}});
}

void add_whole_key(std::string_view name, std::string_view key, std::int64_t value, std::vector<TornadoInput>& found) {
  TornadoInput input{std::string(name), std::string(key), {}};
  for (const double factor : {1 - usual_change, 1 + usual_change}) {
    const auto changed = static_cast<std::int64_t>(std::llround(static_cast<double>(value) * factor));
    if (changed != value) input.settings.push_back({fmt::format("{}", changed), {fmt::format("{}={}", key, changed)}});
  }
  if (!input.settings.empty()) found.push_back(std::move(input));
}

void add_links(const Inputs& inputs, std::vector<TornadoInput>& found) {
  const model::ClusterShape& cluster = inputs.cluster;
  const bool several_nodes = cluster.nodes() > 1 && cluster.nic_bandwidth.value() > 0;
  // A price holds for the NIC rate of the topology. Changing that constant keeps the price; the plan's key drops it.
  if (several_nodes && inputs.plan.cluster.nic_gbps)
    add_key("NIC bandwidth", "cluster.nic_gbps", *inputs.plan.cluster.nic_gbps, found);
  for (const model::Parameter& constant : cluster.parameters) {
    if (several_nodes && !inputs.plan.cluster.nic_gbps && constant.name == "node.nic_bandwidth")
      add_key("NIC bandwidth", "topology." + constant.name, constant.value, found);
    if (cluster.gpus == 1 || cluster.gpus_per_node == 1) continue;
    if (constant.name == "node.gpu_bandwidth" || constant.name == "node.peer_bandwidth")
      add_key("bandwidth inside a node", "topology." + constant.name, constant.value, found);
  }
}

void add_experts(const Inputs& inputs, std::vector<TornadoInput>& found) {
  const model::Plan& plan = inputs.plan;
  constexpr std::string_view key = "routing.imbalance";
  if (!plan.routing.rows_per_rank.empty() || model::states_expert_loads(plan)) return;
  if (plan.routing.imbalance > 0) return add_key("uneven experts", key, plan.routing.imbalance, found);
  add_values("uneven experts", key, {model::routing_balance(plan, inputs.architecture.experts).high}, found);
}

void add_served_experts(const Inputs& inputs, std::vector<TornadoInput>& found) {
  const auto& keys = inputs.plan.inference;
  if (keys.expert_skew || keys.expert_imbalance) return;
  const model::ServedSkew skew = model::served_skew(inputs.architecture.experts);
  constexpr std::string_view key = "inference.expert_skew";
  TornadoInput input{"uneven experts", std::string(key), {}};
  for (const double end : {skew.low, skew.high})
    input.settings.push_back({fmt::format("{:.3g}", end), {setting_text(key, end)}});
  found.push_back(std::move(input));
}

// Adds the requests of a deployment: how many are in flight, and how long they are.
void add_requests(const model::Plan& plan, std::vector<TornadoInput>& found) {
  const auto& keys = plan.inference;
  if (keys.concurrency > 0) add_whole_key("requests in flight", "inference.concurrency", keys.concurrency, found);
  if (keys.lengths) return;
  add_whole_key("tokens of a prompt", "inference.input_tokens", keys.input_tokens, found);
  add_whole_key("tokens of an output", "inference.output_tokens", keys.output_tokens, found);
}

// Adds the price of GPU-hours, with its range where the topology has one.
void add_price(const Inputs& inputs, std::vector<TornadoInput>& found) {
  const model::Plan& plan = inputs.plan;
  const bool owned = plan.run.ownership == "purchase";
  const auto price = model::hourly_price(plan, inputs.cluster);
  if (!price.value) return;
  if (owned) {
    for (const model::Parameter& constant : inputs.cluster.parameters)
      if (constant.name == "price.server")
        add_key("price of a node", "topology." + constant.name, constant.value, found);
    return;
  }
  constexpr std::string_view key = "run.price_usd_per_gpu_hour";
  const model::HourlyPrice& rent = *price.value;
  if (rent.low == rent.high) return add_key("price of a GPU-hour", key, rent.value, found);
  add_values("price of a GPU-hour", key, {rent.low, rent.high}, found);
}

}  // namespace

std::optional<double> tornado_value(const PointResult& point, std::size_t metric) {
  if (!point) return std::nullopt;
  if (point->serving)
    return metric == 0 ? std::optional(point->serving->tpot_s) : point->serving->usd_per_million_tokens_all_in;
  if (metric == 0) return point->result.step.time_s;
  return point->result.run ? point->result.run->cost_usd : std::nullopt;
}

std::vector<const TornadoRow*> TornadoResult::by_width(std::size_t metric) const {
  std::vector<const TornadoRow*> found;
  for (const TornadoRow& row : rows) {
    const auto& span = row.spans[metric];
    if (span && span->width() > least_width * std::abs(*base[metric])) found.push_back(&row);
  }
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [metric](const TornadoRow* row) { return row->spans[metric]->width(); });
  return found;
}

TornadoResult tornado_result(Fidelity fidelity, const std::vector<TornadoInput>& inputs,
                             std::vector<PointResult> points) {
  TornadoResult result;
  result.fidelity = fidelity;
  if (points.front() && points.front()->serving) {
    result.fidelity = Fidelity::closed_form;  // of a steady state there is no other
    result.metrics = deployment_metrics;
  }
  for (std::size_t m = 0; m < step_metrics.size(); ++m) result.base[m] = tornado_value(points.front(), m);
  if (points.front()) result.infeasible_reason = points.front()->infeasible_reason;
  auto point = points.begin() + 1;
  for (const TornadoInput& input : inputs) {
    TornadoRow& row = result.rows.emplace_back();
    row.input = input;
    for (std::size_t i = 0; i < input.settings.size(); ++i) row.points.push_back(std::move(*point++));
    for (std::size_t m = 0; m < step_metrics.size(); ++m) row.spans[m] = span_of(result.base[m], row.points, m);
  }
  std::ranges::stable_sort(result.rows, std::ranges::greater(),
                           [](const TornadoRow& row) { return row.spans[0] ? row.spans[0]->width() : 0; });
  return result;
}

model::Result<TornadoResult> tornado(std::vector<TornadoInput> inputs, const ChangedInputs& changed,
                                     const SweepOptions& options) {
  const auto base = TRY(changed({}));
  if (inputs.empty()) inputs = usual_inputs(base);
  std::vector<std::vector<std::string>> changes = {{}};  // the plan as it is
  for (const TornadoInput& input : inputs)
    for (const TornadoSetting& setting : input.settings) changes.push_back(setting.changes);
  auto points = TRY(sweep(
      changes.size(), [&](std::size_t point) { return changed(changes[point]); }, options));
  if (!points.front()) return tl::unexpected(points.front().error());
  TornadoResult result = tornado_result(options.fidelity, inputs, std::move(points));
  result.plan = base.plan;
  return result;
}

std::vector<TornadoInput> usual_inputs(const Inputs& inputs) {
  const model::Plan& plan = inputs.plan;
  const bool experts = plan.parallelism.expert > 1, serves = model::is_deployment(plan);
  std::vector<TornadoInput> found;
  add_links(inputs, found);
  for (const ConstantGroup& group : groups)
    if ((experts || !group.of_experts) && (serves || !group.of_serving)) add_group(inputs, group, found);
  if (serves) {
    if (inputs.architecture.experts.routed_experts > 0) add_served_experts(inputs, found);
    add_requests(plan, found);
    add_price(inputs, found);
    return found;
  }
  if (experts) add_experts(inputs, found);
  if (plan.overlap.communication_sms > 0)
    add_whole_key("communication SMs", "overlap.communication_sms", plan.overlap.communication_sms, found);
  if (plan.run.tokens) {
    add_key("tokens of the run", "run.tokens", *plan.run.tokens, found);
    add_price(inputs, found);
  }
  return found;
}

model::Result<std::vector<TornadoInput>> parse_inputs(const std::vector<std::string>& over) {
  std::vector<TornadoInput> found;
  for (const std::string& text : over) {
    const auto axis = TRY(parse_ends(text));
    if (std::ranges::find(found, axis.key, &TornadoInput::key) != found.end())
      return model::wrong_input_at("--over", 0, axis.key, "the key is given twice", "give all its values in one");
    TornadoInput& input = found.emplace_back(TornadoInput{axis.key, axis.key, {}});
    for (const SweepValue& value : axis.values)
      input.settings.push_back({value.text, {fmt::format("{}={}", axis.key, value.text)}});
  }
  return found;
}

}  // namespace plumbline::sim
