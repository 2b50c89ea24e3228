// Prints the effective plan as TOML, without the TOML library, to keep the order of the keys and to show the optional
// ones that are not set.
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/base/text.h"
#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

std::string text_of(const std::string& value) { return toml_string(value); }
std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
// Returns the shortest digits that read back to the same double, marked as a TOML float.
std::string text_of(double value) {
  const std::string digits = fmt::format("{}", value);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(Precision value) { return toml_string(to_string(value)); }
std::string text_of(const ConfigValue& value) {
  return std::visit([](const auto& alternative) { return text_of(alternative); }, value);
}

template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + text_of(value);
  return "[" + text + "]";
}

std::string text_of(const StageLayers& layers) {
  return layers.counts.empty() && layers.balanced ? toml_string("balanced") : text_of(layers.counts);
}

std::string text_of(const TierShares& shares) {
  std::string text;
  for (const auto& [tier, share] : shares)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", tier, text_of(share));
  return "{ " + text + " }";
}

template <class T>
std::string line_of(std::string_view name, const T& value) {
  return fmt::format("{} = {}\n", name, text_of(value));
}

template <class T>
std::string line_of(std::string_view name, const std::optional<T>& value) {
  return value ? line_of(name, *value) : fmt::format("# {} is not set\n", name);
}

}  // namespace

std::string to_toml(const Plan& plan) {
  std::string text;
  std::string current;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    if (lacks_section(plan, key)) return;
    const std::string_view section = plan_section(key);
    if (section != current) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    current = section;
    const std::string name(key.substr(section.size() + 1));
    std::string line = line_of(name.find('.') == std::string::npos ? name : text_of(name), field);  // no table
    const auto place = plan.places.find(key);
    if (place != plan.places.end() && !place->second.implied_by.empty())
      line.insert(line.size() - 1, fmt::format("  # {}", place->second.implied_by));
    text += line;
  });
  for (const RunPhase& phase : plan.run.phases) {
    text += "\n[[run.phase]]\n" + line_of("name", phase.name) + line_of("gpu_hours", phase.gpu_hours) +
            line_of("source", phase.source);
  }
  for (const CampaignPhaseKeys& phase : plan.campaign.phases) {
    text += "\n[[campaign.phase]]\n";
    visit_phase(phase, [&](std::string_view key, const auto& field) { text += line_of(key, field); });
  }
  return text;
}

}  // namespace plumbline::model
