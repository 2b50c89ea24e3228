#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "model/plan/plan.h"
#include "sim/whatif/range.h"
#include "sim/whatif/solve.h"
#include "sim/whatif/solve_plan.h"

namespace plumbline::sim {
namespace {

using model::Result;

constexpr double reach = 8;                // largest multiple of the present value, and its largest divisor
constexpr double gigabit_per_byte = 8e-9;  // Gb/s per B/s

std::string range_hint(const std::string& key) { return fmt::format("give a range: --over {}=A..B", key); }

// Returns the cluster's value of a key that the plan leaves open.
std::optional<double> of_cluster(const std::string& key, const Inputs& inputs) {
  const model::ClusterShape& cluster = inputs.cluster;
  if (key == "cluster.nic_gbps") return cluster.nic_bandwidth.value() * gigabit_per_byte;
  if (key == "cluster.power_limit_w" && cluster.device.tdp > 0) return cluster.device.tdp;
  if (key == "cluster.nics_per_node") return static_cast<double>(cluster.nics_per_node);
  if (key == "cluster.oversubscription" && inputs.fabric) return inputs.fabric->oversubscription;
  return std::nullopt;
}

Result<SolveKey> constant_key(const std::string& key, const Inputs& inputs) {
  const bool of_profile = key.starts_with("profile.");
  const std::string name = key.substr(key.find('.') + 1);
  const auto& constants = of_profile ? inputs.profile.parameters() : inputs.cluster.parameters;
  const auto found =
      std::ranges::find_if(constants, [&](const model::Parameter& c) { return model::name_fits(c.name, name); });
  if (found == constants.end()) {
    std::vector<std::string> known;
    for (const model::Parameter& constant : constants) known.push_back(constant.name);
    return model::wrong_input_at("--solve", 0, key, "unknown constant", model::did_you_mean(name, known));
  }
  const bool factor = name.find('*') != std::string::npos;
  return SolveKey{key, false, factor ? 1 : found->value, {}};
}

// Returns the type of a key of the plan and its present value.
Result<SolveKey> plan_key(const std::string& key, const Inputs& inputs) {
  const auto keys = model::plan_keys();
  if (std::ranges::find(keys, key) == keys.end())
    return model::wrong_input_at("--solve", 0, key, "unknown key", model::plan_key_hint(key));
  SolveKey found{key, true, std::nullopt, {}};
  if (key.starts_with("model.") && key != "model.config") return found;
  bool number = false;
  model::visit_fields(inputs.plan, [&](std::string_view name, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if (name != key) return;
    constexpr bool whole = std::is_same_v<Field, std::int64_t> || std::is_same_v<Field, std::optional<std::int64_t>>;
    constexpr bool real = std::is_same_v<Field, double> || std::is_same_v<Field, std::optional<double>>;
    number = whole || real;
    found.whole = whole;
    if constexpr (std::is_same_v<Field, std::int64_t> || std::is_same_v<Field, double>) {
      found.value = static_cast<double>(field);
    } else if constexpr (whole || real) {
      if (field) found.value = static_cast<double>(*field);
    }
  });
  if (!number) return model::wrong_input_at("--solve", 0, key, "is not a number", "sweep its values with --over");
  if (!found.value) found.value = of_cluster(key, inputs);
  return found;
}

Result<SolveRange> given_range(const SolveKey& key, const std::string& over) {
  const auto axis = TRY(parse_ends(over));
  if (axis.key != key.key)
    return model::wrong_input_at("--over", 0, axis.key, fmt::format("{} is solved for", key.key), range_hint(key.key));
  if (!axis.numeric() || axis.values.size() < 2)
    return model::wrong_input_at("--over", 0, axis.key, "needs at least two numbers", range_hint(key.key));
  SolveRange range;
  range.whole = key.whole;
  for (const SweepValue& value : axis.values) range.values.push_back(*value.number);
  std::ranges::sort(range.values);
  range.low = range.values.front();
  range.high = range.values.back();
  if (is_span(over)) range.values.clear();
  return range;
}

// Returns powers of 2 from an eighth to eight times the value, for numbers that must divide something.
SolveRange doublings(double value) {
  SolveRange range{0, 0, true};
  for (double factor = 1 / reach; factor <= reach; factor *= 2) {
    const double x = value * factor;
    if (x >= 1 && x == std::floor(x)) range.values.push_back(x);
  }
  range.low = range.values.front();
  range.high = range.values.back();
  return range;
}

Result<SolveRange> usual_range(const SolveKey& key, const Inputs& inputs) {
  if (key.key == "routing.imbalance" || key.key == "offload.activations") return SolveRange{0, 1};
  if (key.key == "overlap.communication_sms")
    return SolveRange{1, static_cast<double>(inputs.cluster.device.sms - 1), true};
  if (key.value.value_or(0) <= 0)
    return model::wrong_input_at("--solve", 0, key.key, "has no value to look around", range_hint(key.key));
  if (key.key == "cluster.gpus" || (key.whole && key.key.starts_with("parallelism."))) return doublings(*key.value);
  const double low = *key.value / reach, high = *key.value * reach;
  return key.whole ? SolveRange{std::max(1.0, std::ceil(low)), high, true} : SolveRange{low, high};
}

}  // namespace

Result<SolveKey> solve_key(const std::string& key, const Inputs& inputs, const std::optional<std::string>& over) {
  const bool constant = key.starts_with("profile.") || key.starts_with("topology.");
  auto found = TRY(constant ? constant_key(key, inputs) : plan_key(key, inputs));
  found.range = TRY(over ? given_range(found, *over) : usual_range(found, inputs));
  return found;
}

std::string value_text(const SolveKey& key, double x) {
  return key.whole ? fmt::format("{}", std::llround(x)) : fmt::format("{:.6g}", x);
}

}  // namespace plumbline::sim
