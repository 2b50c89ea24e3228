#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/architecture/families/families.h"
#include "model/base/error.h"
#include "model/plan/detail/value_text.h"
#include "model/plan/plan.h"
#include "model/plan/plan_fields.h"

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

// Prints the effective plan as TOML, without the TOML library, to keep the order of the keys and to show the optional
// ones that are not set.
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

constexpr std::string_view model_section = "model";

std::string_view section_of(std::string_view dotted) { return dotted.substr(0, dotted.find('.')); }
std::string_view leaf_of(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

// Returns the key among `keys` whose last part is nearest to `leaf`. Whole dotted names are not compared, because a
// long common section would make any two keys look alike.
std::string nearest_by_leaf(std::string_view leaf, const std::vector<std::string>& keys) {
  std::vector<std::string> leaves;
  for (const std::string& key : keys) leaves.emplace_back(leaf_of(key));
  const auto found = std::ranges::find(leaves, nearest_name(leaf, leaves));
  return found == leaves.end() ? "" : keys[static_cast<std::size_t>(found - leaves.begin())];
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

std::string_view plan_section(std::string_view key) {
  return section_of(key) == model_section ? model_section : key.substr(0, key.rfind('.'));
}

bool is_deployment(const Plan& plan) { return plan.inference.given && plan.batch.global_batch_size == 0; }

bool lacks_section(const Plan& plan, std::string_view key) {
  if (section_of(key) == "inference") return !plan.inference.given;
  if (section_of(key) == "rollout") return !plan.rollout.given;
  return section_of(key) == "batch" && is_deployment(plan);
}

const std::vector<std::string>& plan_keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> keys;
    const Plan plan;
    visit_fields(plan, [&](std::string_view key, const auto&) {
      keys.emplace_back(key);
      if (key == "campaign.deadline") keys.emplace_back("campaign.phase");
      if (key != "model.config") return;
      for (const std::string& name : config_keys()) keys.push_back("model." + name);
    });
    keys.emplace_back("run.phase");
    return keys;
  }();
  return all;
}

std::vector<std::string> plan_sections() {
  std::vector<std::string> sections;
  for (const std::string& key : plan_keys())
    if (sections.empty() || sections.back() != section_of(key)) sections.emplace_back(section_of(key));
  return sections;
}

std::string plan_key_hint(std::string_view dotted) {
  std::vector<std::string> keys = plan_keys();
#define PLAN_ALIAS(NAME, ...) keys.emplace_back(NAME);
#define RENAMED_KEY PLAN_ALIAS
#include "model/plan/plan_keys.def"
  std::string section(section_of(dotted));
  const bool has_leaf = section.size() < dotted.size();
  const std::string nearest_section = nearest_name(section, plan_sections());
  if (has_leaf && !nearest_section.empty()) section = nearest_section;
  std::vector<std::string> siblings;
  std::ranges::copy_if(keys, std::back_inserter(siblings), [&](const auto& key) { return section_of(key) == section; });
  // Of another section than one that is there only the same last part is meant.
  const bool section_is_there = section_of(dotted) == nearest_section;
  std::string nearest = nearest_section;
  if (has_leaf || section_is_there) nearest = has_leaf ? nearest_by_leaf(leaf_of(dotted), siblings) : "";
  if (const std::string elsewhere = nearest_by_leaf(leaf_of(dotted), keys);
      nearest.empty() && (!section_is_there || leaf_of(elsewhere) == leaf_of(dotted)))
    nearest = elsewhere;
  if (nearest.empty() && section_is_there) return fmt::format("plumbline show key {} lists its keys", nearest_section);
  if (nearest.empty()) nearest = nearest_section;
  return nearest.empty() ? fmt::format("sections: {}", fmt::join(plan_sections(), ", "))
                         : fmt::format("did you mean '{}'?", nearest);
}

Error plan_error(const Plan& plan, ErrorKind kind, std::string key, std::string message, std::string hint) {
  const auto place = plan.places.find(key);
  const bool given = place != plan.places.end();
  return Error{
      kind,           std::move(message), given ? place->second.file : plan.file, given ? place->second.line : 0,
      std::move(key), std::move(hint)};
}

std::string model_name(const Plan& plan) {
  const std::string& path = plan.model.config;
  const std::size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  std::string changes;
  for (const auto& [key, value] : plan.model.overrides) {
    const auto text = [](const auto& alternative) { return fmt::format("{}", alternative); };
    changes += fmt::format("{}{} {}", changes.empty() ? "" : ", ", key, std::visit(text, value));
  }
  return changes.empty() ? name : fmt::format("{} ({})", name, changes);
}

}  // namespace plumbline::model
