#include "model/plan/plan_key_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "model/architecture/families/families.h"
#include "model/plan/detail/plan_rules.h"
#include "model/plan/detail/value_text.h"
#include "model/plan/plan_fields.h"

namespace plumbline::model {
namespace {

std::string one_of(const std::vector<std::string>& words) {
  return words.empty() ? "" : fmt::format("one of {}", fmt::join(words, ", "));
}

void describe_field(PlanKey& key, const std::string&) {
  const bool date = key.name == "campaign.start" || key.name == "campaign.deadline";
  key.words = plan_words(key.name);
  key.type = date ? "date" : key.words.empty() ? "text" : "word";
  key.allowed = one_of(key.words);
}
void describe_field(PlanKey& key, const std::int64_t&) {
  const IntegerRange range = integer_range(key.name);
  key.type = "integer";
  key.allowed = fmt::format("{} to {}", range.least, range.most);
}
void describe_field(PlanKey& key, const double&) {
  key.type = "number";
  key.allowed = number_range_text(key.name);
}
void describe_field(PlanKey& key, const bool&) {
  key.type = "flag";
  key.words = {"true", "false"};
  key.allowed = one_of(key.words);
}
void describe_field(PlanKey& key, const Precision&) {
  key.type = "word";
  key.words = precision_words();
  key.allowed = one_of(key.words);
}
void describe_field(PlanKey& key, const ConfigValue&) {
  describe_field(key, 0.0);
  key.words = plan_words(key.name);
  if (key.words.empty()) return;
  key.type += " or word";
  key.allowed += fmt::format(", or {}", fmt::join(key.words, ", "));
}
void describe_field(PlanKey& key, const StageLayers&) {
  describe_field(key, std::int64_t{});
  key.type = "list of integers, or word";
  key.words = plan_words(key.name);
  key.allowed += fmt::format(", or {}", one_of(key.words));
}
void describe_field(PlanKey& key, const AcceptanceShares&) {
  describe_field(key, 0.0);
  key.type = "number or list of numbers";
}
void describe_field(PlanKey& key, const TierShares&) {
  describe_field(key, 0.0);
  key.type = "number or table";
}
template <class T>
void describe_field(PlanKey& key, const std::vector<T>&) {
  describe_field(key, T{});
  key.type = fmt::format("list of {}s", key.type);
  if (list_words(key.name).empty()) return;
  std::vector<std::string> words;
  for (const auto& [word, list] : list_words(key.name)) words.push_back(word);
  key.type += ", or word";
  key.allowed += fmt::format(", or {}", one_of(words));
}
template <class T>
void describe_field(PlanKey& key, const std::optional<T>&) {
  describe_field(key, T{});
}

template <class T>
std::string default_of(const T& field) {
  return text_of(field);
}
template <class T>
std::string default_of(const std::optional<T>&) {
  return "not set";
}

std::vector<PlanKey> declared_keys() {
  return {
#define PLAN_KEY(NAME, MEMBER, ...) {NAME, __VA_ARGS__},
#define PHASE_KEY PLAN_KEY
#define STATED_PHASE_KEY PLAN_KEY
#include "model/plan/plan_keys.def"
  };
}

std::vector<PlanKey> alias_keys() {
  struct Declared {
    std::string_view name, value, since, meaning;
  };
  constexpr Declared declared[] = {
#define PLAN_ALIAS(NAME, VALUE, SINCE, MEANING) {NAME, VALUE, SINCE, MEANING},
#define RENAMED_KEY(NAME, KEY, SINCE, MEANING) {NAME, "that of " KEY, SINCE, MEANING},
#include "model/plan/plan_keys.def"
  };
  std::vector<PlanKey> keys;
  for (const Declared& alias : declared) {
    PlanKey& key = keys.emplace_back();
    key.name = alias.name;
    key.since = alias.since;
    key.meaning = fmt::format("{}{} It sets {}.", alias.meaning, alias.meaning.ends_with('.') ? "" : ".",
                              fmt::join(alias_targets(alias.name), " and "));
    key.type = "alias";
    key.allowed = alias.value;
    key.alias = true;
    if (key.allowed == "true | false") key.words = {"true", "false"};
  }
  return keys;
}

// Calls visit(key, field) for every key of the plan and of its phases.
template <class Visitor>
void visit_all(Visitor&& visit) {
  visit_fields(std::as_const(static_cast<const Plan&>(Plan{})), visit);
  const auto of_list = [&visit](const char* list) {
    return [&visit, list](std::string_view name, const auto& field) { visit(fmt::format("{}.{}", list, name), field); };
  };
  const CampaignPhaseKeys phase;
  visit_phase(phase, of_list("campaign.phase"));
  const RunPhase stated;
  visit_phase(stated, of_list("run.phase"));
}

bool is_required(const std::string& key) {
  return std::ranges::find(required_plan_keys, key) != required_plan_keys.end() ||
         std::ranges::find(required_rollout_keys, key) != required_rollout_keys.end() || key == "campaign.phase.name" ||
         key.starts_with("run.phase.");
}

}  // namespace

std::vector<PlanKey> plan_key_table() {
  std::vector<PlanKey> table = declared_keys();
  std::map<std::string, PlanKey*, std::less<>> by_name;
  for (PlanKey& key : table) by_name[key.name] = &key;
  visit_all([&](std::string_view name, const auto& field) {
    PlanKey& key = *by_name.find(name)->second;
    describe_field(key, field);
    key.default_value = is_required(key.name) ? "required" : default_of(field);
  });
  std::ranges::move(alias_keys(), std::back_inserter(table));
  return table;
}

Result<std::vector<PlanKey>> find_plan_keys(std::string_view name) {
  std::vector<PlanKey> exact, in_section, by_leaf;
  for (const PlanKey& key : plan_key_table()) {
    if (key.name == name) exact.push_back(key);
    if (key.name.starts_with(fmt::format("{}.", name))) in_section.push_back(key);
    if (key.name.ends_with(fmt::format(".{}", name))) by_leaf.push_back(key);
  }
  for (auto* found : {&exact, &in_section, &by_leaf})
    if (!found->empty()) return std::move(*found);
  for (const std::string& config : config_keys()) {
    if (name != "model." + config) continue;
    PlanKey key;
    key.name = name;
    key.since = "0.1";
    key.meaning = fmt::format("The key {} of the model's config.json, whose value it replaces.", config);
    key.type = "value of JSON";
    key.default_value = "that of the file";
    return std::vector<PlanKey>{key};
  }
  return wrong_input(std::string(name), "unknown key of a plan", plan_key_hint(name));
}

}  // namespace plumbline::model
