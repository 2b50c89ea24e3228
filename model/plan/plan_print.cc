// Prints the effective plan as TOML, without the TOML library, to keep the order of the keys and to show the optional
// ones that are not set.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "model/plan/detail/value_text.h"
#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

template <class T>
std::string line_of(std::string_view name, const T& value) {
  return fmt::format("{} = {}\n", name, text_of(value));
}

template <class T>
std::string line_of(std::string_view name, const std::optional<T>& value) {
  return value ? line_of(name, *value) : fmt::format("# {} is not set\n", name);
}

// Returns whether what serving costs depends on the key; the other keys are of trainings.
bool decides_serving(std::string_view key) {
  constexpr std::string_view sections[] = {"model.", "cluster.", "inference."};
  constexpr std::string_view keys[] = {"parallelism.tensor",
                                       "parallelism.pipeline",
                                       "parallelism.expert",
                                       "attention.kernel",
                                       "overlap.communication_sms",
                                       "overlap.communication_kernels",
                                       "routing.max_nodes_per_token",
                                       "stack.dispatcher",
                                       "stack.fused",
                                       "stack.graphs",
                                       "run.price_usd_per_gpu_hour",
                                       "run.ownership",
                                       "run.depreciation_years",
                                       "run.utilisation",
                                       "run.pue",
                                       "run.electricity_usd_per_kwh"};
  return std::ranges::find(keys, key) != std::end(keys) ||
         std::ranges::any_of(sections, [&](std::string_view section) { return key.starts_with(section); });
}

template <class Kept>
std::string printed_keys(const Plan& plan, Kept kept) {
  std::string text;
  std::string current;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    if (!kept(key)) return;
    const std::string_view section = plan_section(key);
    if (section != current) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    current = section;
    const std::string name(key.substr(section.size() + 1));
    std::string line = line_of(name.find('.') == std::string::npos ? name : text_of(name), field);  // no table
    const auto place = plan.places.find(key);
    // Balance that nobody stated is drawn, stated balance is forced (RoutingBalance). An engine may have a rule for a
    // share of the memory that nobody stated.
    const bool open_balance = key == "routing.imbalance" && plan.routing.imbalance == 0;
    const bool open_share =
        key == "inference.memory_share" && plan.inference.memory_share == Plan().inference.memory_share;
    if (place == plan.places.end() && (open_balance || open_share)) line = fmt::format("# {} is not set\n", name);
    if (place != plan.places.end() && !place->second.implied_by.empty())
      line.insert(line.size() - 1,
                  fmt::format("  # {}{}", place->second.implied_by,
                              place->second.given.empty() ? "" : " instead of " + place->second.given));
    text += line;
  });
  return text;
}

}  // namespace

std::string deployment_toml(const Plan& plan) { return printed_keys(plan, decides_serving); }

std::string to_toml(const Plan& plan) {
  std::string text = printed_keys(plan, [&](std::string_view key) { return !lacks_section(plan, key); });
  const auto print_phases = [&text](std::string_view list, const auto& phases) {
    for (const auto& phase : phases) {
      text += fmt::format("\n[[{}]]\n", list);
      visit_phase(phase, [&text](std::string_view key, const auto& field) { text += line_of(key, field); });
    }
  };
  print_phases("run.phase", plan.run.phases);
  print_phases("campaign.phase", plan.campaign.phases);
  return text;
}

}  // namespace plumbline::model
