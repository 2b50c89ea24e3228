#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/plan/alternative.h"
#include "model/plan/detail/plan_rules.h"
#include "model/plan/detail/value_text.h"
#include "model/plan/plan.h"
#include "model/plan/plan_fields.h"
#include "model/plan/rollout.h"
#include "model/plan/sharding_words.h"
#include "model/plan/software.h"
#include "model/routing/files.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {
namespace {

// A plan file after applying the overrides, with the keys that came from them.
struct Document {
  toml::table root;
  std::string file;
  std::set<std::string, std::less<>> overridden;
  std::vector<GivenAlias> aliases = {};  // those that set keys when the others are read
};

int line_of(const toml::source_region& source) { return static_cast<int>(source.begin.line); }

// Makes an error at a key: in the file with its line, or on the command line.
Error located(const Document& document, std::string_view key, const toml::source_region& source, Error error) {
  const bool from_override = document.overridden.contains(key);
  error.file = from_override ? "--set" : document.file;
  error.line = from_override ? 0 : line_of(source);
  error.key = std::string(key);
  return error;
}

Error problem(std::string message, std::string hint) {
  return Error{ErrorKind::input, std::move(message), "", 0, "", std::move(hint)};
}

std::optional<Error> mismatch(std::string_view expected, const toml::node& node) {
  std::string_view found = "a value of another type";
  if (node.is_string()) found = "a string";
  if (node.is_integer()) found = "an integer";
  if (node.is_floating_point()) found = "a number with a fraction or exponent";
  if (node.is_boolean()) found = "true or false";
  if (node.is_array()) found = "a list";
  if (node.is_table()) found = "a table";
  return problem(fmt::format("expected {}, found {}", expected, found),
                 node.is_string() ? "write the value without quotes and without a unit" : "");
}

template <class T>
std::optional<Error> assign_exact(std::string_view expected, const toml::node& node, T& field) {
  const auto value = node.value_exact<T>();
  if (!value) return mismatch(expected, node);
  field = *value;
  return std::nullopt;
}

std::optional<Error> assign(const toml::node& node, std::string& field) {
  if (const auto* date = node.as_date()) {
    field = fmt::format("{:04}-{:02}-{:02}", (*date)->year, (*date)->month, (*date)->day);
    return std::nullopt;
  }
  return assign_exact("a string", node, field);
}
std::optional<Error> assign(const toml::node& node, std::int64_t& field) {
  return assign_exact("an integer", node, field);
}
std::optional<Error> assign(const toml::node& node, bool& field) { return assign_exact("true or false", node, field); }

std::optional<Error> assign(const toml::node& node, double& field) {
  if (!node.is_number()) return mismatch("a number", node);
  field = node.is_integer() ? static_cast<double>(**node.as_integer()) : **node.as_floating_point();
  return std::nullopt;
}

std::optional<Error> assign(const toml::node& node, Precision& field) {
  if (!node.is_string()) return mismatch("one of " + precision_names() + " in quotes", node);
  const auto precision = parse_precision(**node.as_string());
  if (!precision) return precision.error();
  field = *precision;
  return std::nullopt;
}

std::optional<Error> assign(const toml::node& node, ConfigValue& field) {
  if (const auto* value = node.as_string())
    field = **value;
  else if (const auto* integer = node.as_integer())
    field = **integer;
  else if (const auto* number = node.as_floating_point())
    field = **number;
  else if (const auto* flag = node.as_boolean())
    field = **flag;
  else
    return mismatch("a number, a string, true or false", node);
  return std::nullopt;
}

template <class T>
std::optional<Error> assign(const toml::node& node, std::vector<T>& field) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return mismatch("a list", node);
  field.clear();
  for (const toml::node& item : *array) {
    T value{};
    if (auto error = assign(item, value)) return error;
    field.push_back(std::move(value));
  }
  return std::nullopt;
}

// Assigns a field and checks its range.
template <class T>
std::optional<Error> read_value(std::string_view key, const toml::node& node, T& field) {
  if (auto error = assign(node, field)) return error;
  return check_plan_value(key, field);
}

// Reads a list, for which a word may stand (list_words). A list of [search] of one value may be written as that value.
template <class T>
std::optional<Error> read_value(std::string_view key, const toml::node& node, std::vector<T>& field) {
  if constexpr (std::is_same_v<T, std::string>) {
    const std::map<std::string, std::vector<std::string>>& lists = list_words(key);
    if (const auto* word = node.as_string(); word != nullptr && !lists.empty()) {
      const auto found = lists.find(**word);
      std::vector<std::string> words;
      for (const auto& [name, list] : lists) words.push_back(name);
      if (found == lists.end())
        return problem(fmt::format("unknown word '{}'", **word), choice_hint(**word, words) + ", or a list");
      field = found->second;
      return std::nullopt;
    }
  }
  const toml::array one{node};
  const bool alone = key.starts_with("search.") && !node.is_array() && !node.is_table();
  if (auto error = assign(alone ? one : node, field)) return error;
  return check_plan_value(key, field);
}

std::optional<Error> read_value(std::string_view key, const toml::node& node, StageLayers& field) {
  field = {};
  const std::string* word = node.is_string() ? &**node.as_string() : nullptr;
  auto error = word != nullptr ? check_plan_value(key, *word) : read_value(key, node, field.counts);
  field.even = word != nullptr ? *word == "even" : field.counts.empty();  // a list without numbers
  return error;
}

std::optional<Error> read_value(std::string_view key, const toml::node& node, AcceptanceShares& field) {
  if (!node.is_array()) return read_value(key, node, field.shares.emplace_back());
  if (auto error = read_value(key, node, field.shares)) return error;
  if (field.shares.empty()) return problem("a list without values", "for example [0.85, 0.75]");
  return std::nullopt;
}

std::optional<Error> read_value(std::string_view key, const toml::node& node, TierShares& field) {
  const std::vector<std::string> tiers = {"nic", "leaf", "spine"};
  const toml::table* table = node.as_table();
  if (table == nullptr && !node.is_number()) return mismatch("a number or a table of nic, leaf and spine", node);
  field.clear();
  if (table == nullptr)
    for (const std::string& tier : tiers)
      if (auto error = read_value(key, node, field[tier])) return error;
  for (const auto& [tier, share] : table == nullptr ? toml::table{} : *table) {
    const std::string name(tier.str());
    if (std::ranges::find(tiers, name) == tiers.end())
      return problem(fmt::format("unknown tier '{}'", name), choice_hint(name, tiers));
    if (auto error = read_value(key, share, field[name])) return error;
  }
  return std::nullopt;
}

template <class T>
std::optional<Error> read_value(std::string_view key, const toml::node& node, std::optional<T>& field) {
  return read_value(key, node, field.emplace());
}

// Adds the model keys that the plan gives; read_fields sets their values.
void name_model_overrides(const Document& document, Plan& plan) {
  const toml::table* section = document.root["model"].as_table();
  if (section == nullptr) return;
  for (const auto& [key, value] : *section)
    if (key.str() != "config") plan.model.overrides.try_emplace(std::string(key.str()));
}

// Returns the node of a key, or nullptr. A model key may contain a dot, as in attn_config.alibi.
const toml::node* node_of(const Document& document, std::string_view key) {
  if (const toml::node* node = document.root.at_path(key).node()) return node;
  const std::string_view section = plan_section(key);
  const toml::table* table = document.root.at_path(section).as_table();
  return table == nullptr ? nullptr : table->get(key.substr(section.size() + 1));
}

std::optional<Error> read_fields(const Document& document, Plan& plan) {
  name_model_overrides(document, plan);
  std::optional<Error> failure;
  visit_fields(plan, [&](std::string_view key, auto& field) {
    const toml::node* node = node_of(document, key);
    if (failure || node == nullptr) return;
    const Error place = located(document, key, node->source(), {});
    plan.places[place.key] = {place.file, place.line, ""};
    auto error = read_value(key, *node, field);
    if (!error) return;
    if (key.ends_with("zero_stage") && node->is_string())
      if (std::string hint = sharding_hint(**node->as_string()); !hint.empty()) error->hint = std::move(hint);
    failure = located(document, key, node->source(), *error);
  });
  return failure;
}

// Reads a table of a list of tables: `visit` lists its keys with their fields, of which only optional ones may be
// missing.
template <class Phase, class Visit>
std::optional<Error> read_phase(const std::string& list, const toml::table& table, Phase& phase, const Visit& visit) {
  std::vector<std::string> keys;
  visit(phase, [&](const std::string& key, auto&) { keys.push_back(key); });
  for (const auto& [key, node] : table) {
    if (std::ranges::find(keys, key.str()) != keys.end()) continue;
    return problem(fmt::format("unknown key '{}' of a phase", key.str()), choice_hint(key.str(), keys));
  }
  std::optional<Error> failure;
  visit(phase, [&](const std::string& key, auto& field) {
    if (failure) return;
    if (const toml::node* node = table.get(key)) {
      failure = read_value(fmt::format("{}.{}", list, key), *node, field);
      if (failure) failure->message = fmt::format("{}: {}", key, failure->message);
    } else if constexpr (!requires { field.has_value(); }) {
      failure = problem(fmt::format("a phase lacks '{}'", key), fmt::format("a phase has {}", fmt::join(keys, ", ")));
    }
  });
  return failure;
}

template <class Phase, class Visit>
std::optional<Error> read_phases(const Document& document, const std::string& list, std::vector<Phase>& phases,
                                 const Visit& visit) {
  const toml::node* node = document.root.at_path(list).node();
  if (node == nullptr) return std::nullopt;
  const toml::array* array = node->as_array();
  const Error wrong_shape = problem("expected a list of tables", fmt::format("write each phase under [[{}]]", list));
  if (array == nullptr) return located(document, list, node->source(), wrong_shape);
  for (const toml::node& item : *array) {
    if (!item.is_table()) return located(document, list, item.source(), wrong_shape);
    if (auto error = read_phase(list, *item.as_table(), phases.emplace_back(), visit))
      return located(document, list, item.source(), *error);
  }
  return std::nullopt;
}

std::optional<Error> read_all_phases(const Document& document, Plan& plan) {
  const auto visit = [](auto& phase, auto&& visitor) { visit_phase(phase, visitor); };
  if (auto error = read_phases(document, "run.phase", plan.run.phases, visit)) return error;
  return read_phases(document, "campaign.phase", plan.campaign.phases, visit);
}

// Checks the keys of a table of the plan, which may have tables of its own; `name` is "" of the plan itself.
std::optional<Error> unknown_keys(const Document& document, const std::string& name, const toml::table& table) {
  for (const auto& [key, value] : table) {
    const std::string dotted = (name.empty() ? "" : name + ".") + std::string(key.str());
    if (std::ranges::find(plan_keys(), dotted) != plan_keys().end()) continue;
    const bool section = std::ranges::any_of(
        plan_keys(), [&](const std::string& known) { return name != "model" && known.starts_with(dotted + "."); });
    if (!section) return located(document, dotted, key.source(), problem("unknown key", plan_key_hint(dotted)));
    if (!value.is_table())
      return located(document, dotted, key.source(), problem("expected a table", fmt::format("write [{}]", dotted)));
    if (auto error = unknown_keys(document, dotted, *value.as_table())) return error;
  }
  return std::nullopt;
}

std::optional<Error> missing_keys(const Document& document) {
  if (document.root.empty())
    return Error{ErrorKind::input, "the plan is empty", document.file, 0, "", "plumbline show key lists its keys"};
  const bool generates = document.root.contains("rollout");
  const bool serves = document.root.contains("inference") && !document.root.contains("batch") && !generates;
  std::vector<std::string_view> required(required_plan_keys.begin(), required_plan_keys.end());
  if (generates) required.insert(required.end(), required_rollout_keys.begin(), required_rollout_keys.end());
  std::erase_if(required, [&](std::string_view key) {
    return document.root.at_path(key) || (serves && key.starts_with("batch.")) ||
           (generates && key == "batch.global_batch_size");
  });
  if (required.empty()) return std::nullopt;
  const std::string_view first = required.front();
  const std::size_t dot = first.find('.');
  std::string hint = fmt::format("add '{} = ...' under [{}]", first.substr(dot + 1), first.substr(0, dot));
  required.erase(required.begin());
  if (!required.empty()) hint += fmt::format("; also missing: {}", fmt::join(required, ", "));
  return Error{ErrorKind::input, "required key is missing", document.file, 0, std::string(first), std::move(hint)};
}

// Returns a value as text, a list with x between its items; "" of other values.
std::string alias_value(const toml::node& node) {
  if (const auto* text = node.as_string()) return **text;
  if (const auto* number = node.as_integer()) return fmt::format("{}", **number);
  if (const auto* flag = node.as_boolean()) return **flag ? "true" : "false";
  std::string text;
  if (const toml::array* items = node.as_array())
    for (const toml::node& item : *items) text += (text.empty() ? "" : "x") + alias_value(item);
  return text;
}

// Moves an alias out of its section. Keys that it sets must not be given next to it.
std::optional<Error> take_alias(Document& document, const std::string& name, toml::table& section) {
  const std::string leaf = name.substr(name.rfind('.') + 1);
  const toml::node& node = *section.get(leaf);
  const auto twice = [&](std::string_view other) {
    return located(document, name, node.source(),
                   problem(fmt::format("{} is given too, and both set the same", other), "leave one of them out"));
  };
  const std::vector<std::string> targets = alias_targets(name);
  for (const std::string& target : targets)
    if (document.root.at_path(target)) return twice(target);
  for (const GivenAlias& other : document.aliases)
    if (alias_targets(other.name) == targets && !complete_each_other(name, other.name)) return twice(other.name);
  const std::string_view key = renamed_key(name);
  if (key.empty())
    document.aliases.push_back({name, alias_value(node), {document.file, line_of(node.source()), ""}});
  else
    section.insert_or_assign(key.substr(key.rfind('.') + 1), node);
  section.erase(leaf);
  return std::nullopt;
}

std::optional<Error> take_aliases(Document& document) {
  for (auto&& [section, node] : document.root) {
    toml::table* table = node.as_table();
    std::vector<std::string> names;
    for (const auto& [key, value] : table == nullptr ? toml::table{} : *table) {
      const std::string dotted = fmt::format("{}.{}", section.str(), key.str());
      if (alias_name(dotted) == dotted) names.push_back(dotted);
    }
    for (const std::string& name : names)
      if (auto error = take_alias(document, name, *table)) return error;
  }
  return std::nullopt;
}

// Records an alias of the command line in place of what the file gives for the same keys.
void override_alias(Document& document, const std::string& name, const toml::node& value) {
  const std::vector<std::string> targets = alias_targets(name);
  for (const std::string& target : targets)
    if (toml::table* section = document.root.at_path(plan_section(target)).as_table())
      section->erase(target.substr(target.rfind('.') + 1));
  std::erase_if(document.aliases, [&](const GivenAlias& other) {
    return alias_targets(other.name) == targets && !complete_each_other(name, other.name);
  });
  document.aliases.push_back({name, alias_value(value), {"--set", 0, ""}});
}

// Parses the value of an override: TOML, or a bare word, which is a string.
Result<toml::table> parse_override_value(const std::string& text) {
  TRY(check_nesting(text, ""));
  try {
    toml::table table = toml::parse("value = " + text);
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
    const bool bare = !text.empty() && text.find_first_of("\"'[]{}=#\n\r") == std::string::npos;
    if (bare) return toml::table{{"value", text}};
  }
  return tl::unexpected(problem(fmt::format("'{}' is not a TOML value", text), "quote it if a string was meant"));
}

std::optional<Error> apply_override(Document& document, const std::string& text) {
  const std::size_t equals = text.find('=');
  std::string key = text.substr(0, equals);
  if (equals == std::string::npos || key.empty())
    return Error{ErrorKind::input,
                 fmt::format("expected KEY=VALUE, found '{}'", text),
                 "--set",
                 0,
                 "",
                 "for example --set parallelism.pipeline=8"};
  const std::string alias = alias_name(key);
  const std::string_view renamed = renamed_key(alias);
  if (!alias.empty()) key = renamed.empty() ? alias : renamed;
  document.overridden.insert(key);
  if (alias.empty() && std::ranges::find(plan_keys(), key) == plan_keys().end())
    return located(document, key, {}, problem("unknown key", plan_key_hint(key)));
  auto value = parse_override_value(text.substr(equals + 1));
  if (!value) return located(document, key, {}, value.error());
  if (!alias.empty() && renamed.empty()) {
    override_alias(document, alias, *value->get("value"));
    return std::nullopt;
  }
  const std::string_view section = plan_section(key);
  toml::table* table = &document.root;
  for (const std::string_view name : split_at(section, '.'))
    table = table->insert(name, toml::table{}).first->second.as_table();
  table->insert_or_assign(key.substr(section.size() + 1), std::move(*value->get("value")));
  return std::nullopt;
}

Result<Document> parse_plan(std::string_view text, const std::string& path) {
  TRY(check_nesting(text, path));
  try {
    return Document{.root = toml::parse(text, path), .file = path};
  } catch (const toml::parse_error& failure) {
    return wrong_input_at(path, line_of(failure.source()), "", std::string(failure.description()),
                          "a plan is a TOML file");
  }
}

// Returns whether software decides about a key.
bool is_of_software(std::string_view key) {
  constexpr std::string_view others[] = {"model.",   "cluster.", "batch.",  "campaign.",
                                         "rollout.", "run.",     "search.", "stack.name"};
  constexpr std::string_view of_engines[] = {"inference.chunked_prefill_tokens", "inference.dispatch",
                                             "inference.memory_share"};
  if (key.starts_with("inference.")) return std::ranges::find(of_engines, key) != std::end(of_engines);
  return std::ranges::none_of(others, [&](std::string_view other) { return key.starts_with(other); });
}

Failure refused(const PlanSetting& setting, const Error& error) {
  return wrong_input_at(setting.place.file, setting.place.line, setting.key, error.message, error.hint);
}

// Returns the value of a setting, whose key must be one that software decides about, under the key "value".
Result<toml::table> value_of(const PlanSetting& setting, const std::string& text) {
  if (!is_of_software(setting.key))
    return refused(setting, problem("no stack decides about this key", "it belongs into the plan"));
  auto value = parse_override_value(text);
  if (!value) return refused(setting, value.error());
  return std::move(*value);
}

// Reads a value of the setting's key into the plan; returns it as a word.
Result<std::string> read_field(const PlanSetting& setting, const toml::node& value, Plan& plan) {
  std::optional<std::string> word;
  std::optional<Error> failure;
  visit_fields(plan, [&](std::string_view key, auto& field) {
    if (key != setting.key) return;
    failure = read_value(key, value, field);
    word = word_of(field);
  });
  if (!word) failure = problem("unknown key of a plan", plan_key_hint(setting.key));
  if (failure) return refused(setting, *failure);
  return *std::move(word);
}

Result<void> apply_setting(const PlanSetting& setting, Plan& plan) {
  const auto value = TRY(value_of(setting, setting.value));
  TRY(read_field(setting, *value.get("value"), plan));
  plan.places[setting.key] = setting.place;
  return {};
}

// Returns the word of the value that the setting replaces.
Result<std::string> replaced_word(const PlanSetting& setting) {
  Plan plan;
  const auto value = TRY(value_of(setting, setting.instead_of));
  return read_field(setting, *value.get("value"), plan);
}

// Gives the plan the setting's value where it has the one that this replaces, which its software then does not have.
Result<void> replace(const PlanSetting& setting, Plan& plan) {
  const std::string other = TRY(replaced_word(setting));
  std::string now;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    if (key == setting.key) now = word_of(field);
  });
  if (const auto list = plan.software.find(listed_as(setting.key)); list != plan.software.end())
    std::erase(list->second.values, other);
  if (now != other) return {};
  TRY(apply_setting(setting, plan));
  plan.places[setting.key].given = other;
  return {};
}

bool has_key(const std::vector<std::string>& changes, std::string_view key) {
  return std::ranges::any_of(changes, [key](const std::string& change) {
    return change.starts_with(key) && change.substr(key.size()).starts_with('=');
  });
}

// Returns whether the changes may give the layers of the plan's stages another schedule, and not their numbers.
bool may_outgrow_layers(const std::vector<std::string>& changes) {
  constexpr std::string_view keys[] = {"schedule.kind", "schedule.virtual_stages", "parallelism.pipeline"};
  return std::ranges::any_of(keys, [&](std::string_view key) { return has_key(changes, key); }) &&
         !has_key(changes, "schedule.layers_per_stage");
}

// Numbers of layers belong to the schedule that they were stated for: those of another one are found anew.
void forget_outgrown_layers(const Plan& before, Plan& plan) {
  StageLayers& layers = plan.schedule.layers_per_stage;
  const bool same = before.schedule.kind == plan.schedule.kind &&
                    before.schedule.virtual_stages == plan.schedule.virtual_stages &&
                    before.parallelism.pipeline == plan.parallelism.pipeline;
  if (same || layers.counts.empty()) return;
  const auto stages = static_cast<std::int64_t>(layers.counts.size());
  layers = {};
  layers.replaced = stages;
}

// Reads the files that the plan names, which lie next to it or in the working directory.
Result<void> read_files(Plan& plan) {
  const auto& loads = plan.routing.load_file;
  const auto& documents = plan.batch.document_lengths;
  const auto& requests = plan.inference.lengths;
  const auto path_of = [&plan](const std::string& name) {
    const std::string adjacent = std::filesystem::path(plan.file).parent_path() / name;
    return is_file(adjacent) ? adjacent : name;
  };
  if (plan.schedule.kind.starts_with(schedule_file_prefix))
    plan.schedule_file = TRY(read_schedule_file(path_of(plan.schedule.kind.substr(schedule_file_prefix.size()))));
  if (!loads && !documents && !requests) return {};
  plan.files = TRY(read_routing_files(loads ? path_of(*loads) : "", documents ? path_of(*documents) : "",
                                      requests ? path_of(*requests) : ""));
  return {};
}

}  // namespace

Result<Plan> load_plan(const std::string& path, const std::vector<std::string>& overrides) {
  return read_plan(TRY(read_text_file(path)), path, overrides);
}

Result<Plan> read_plan(std::string_view text, const std::string& path, const std::vector<std::string>& overrides) {
  auto document = TRY(parse_plan(text, path));
  if (const auto error = take_aliases(document)) return tl::unexpected(*error);
  if (const auto error = unknown_keys(document, "", document.root)) return tl::unexpected(*error);
  std::optional<Plan> before;
  if (may_outgrow_layers(overrides))
    if (const auto error = read_fields(document, before.emplace())) return tl::unexpected(*error);
  for (const std::string& change : overrides)
    if (const auto error = apply_override(document, change)) return tl::unexpected(*error);
  if (const auto error = missing_keys(document)) return tl::unexpected(*error);
  Plan plan;
  plan.file = path;
  plan.inference.given = document.root.contains("inference");
  plan.rollout.given = document.root.contains("rollout");
  if (const auto error = read_fields(document, plan)) return tl::unexpected(*error);
  if (before) forget_outgrown_layers(*before, plan);
  if (const auto error = apply_aliases(document.aliases, plan)) return tl::unexpected(*error);
  if (plan.rollout.given) TRY(complete_rollout(plan));
  if (const auto error = read_all_phases(document, plan)) return tl::unexpected(*error);
  TRY(read_files(plan));
  return plan;
}

std::vector<std::string> with_layers_of_launch(std::vector<std::string> overrides,
                                               const std::vector<std::string>& of_user, const std::string& layers) {
  const bool divided_anew = has_key(of_user, "schedule.virtual_stages") || has_key(of_user, "parallelism.pipeline");
  overrides.insert(overrides.end(), of_user.begin(), of_user.end());
  if (!layers.empty() && !divided_anew && may_outgrow_layers(overrides))
    overrides.push_back("schedule.layers_per_stage=" + layers);
  return overrides;
}

Result<void> change_plan(const std::vector<std::string>& overrides, Plan& plan) {
  std::map<std::string, toml::table, std::less<>> values;  // by key; the last one of a key counts
  for (const std::string& change : overrides) {
    const std::size_t equals = change.find('=');
    auto value = TRY(parse_override_value(equals == std::string::npos ? "" : change.substr(equals + 1)));
    values.insert_or_assign(change.substr(0, equals), std::move(value));
  }
  std::optional<Plan> before;
  if (may_outgrow_layers(overrides)) before = plan;
  std::size_t found = 0;
  std::optional<Error> failure;
  visit_fields(plan, [&](std::string_view key, auto& field) {
    const auto value = values.find(key);
    if (failure || value == values.end()) return;
    failure = read_value(key, *value->second.get("value"), field);
    if (failure) failure->key = std::string(key);
    plan.places[value->first] = {"--set", 0, ""};
    ++found;
  });
  if (failure) return wrong_input_at("--set", 0, failure->key, failure->message, failure->hint);
  if (found != values.size()) return wrong_input("--set", "a key that no plan has, or one of the model");
  if (before) forget_outgrown_layers(*before, plan);
  return {};
}

Result<void> check_setting(const PlanSetting& setting) {
  Plan plan;
  if (!setting.instead_of.empty()) TRY(replaced_word(setting));
  return apply_setting(setting, plan);
}

Result<void> apply_settings(const std::vector<PlanSetting>& settings, Plan& plan) {
  // What is computed again belongs to the policy that asks for it: a later change of policy states both.
  const auto idle = [&plan](const PlanSetting& setting) {
    return setting.key == "recompute.operators" && plan.recompute.policy != "selective";
  };
  for (const PlanSetting& setting : settings)
    if (setting.instead_of.empty() && !plan.places.contains(setting.key) && !idle(setting))
      TRY(apply_setting(setting, plan));
  for (const PlanSetting& setting : settings)
    if (!setting.instead_of.empty()) TRY(replace(setting, plan));
  return {};
}

Result<std::vector<std::string>> listed_values(const PlanSetting& list) {
  const auto value = TRY(value_of(list, list.value));
  const toml::array* items = value.get("value")->as_array();
  const bool of_rules = list.key == rules_key;
  if (items == nullptr || (items->empty() && !of_rules))
    return refused(list, problem("expected a list of values", "write them in brackets"));
  std::vector<std::string> words;
  const std::vector<std::string> rules = software_rules();
  for (const toml::node& item : *items) {
    Plan plan;
    const std::string word = of_rules ? item.value_or(std::string()) : TRY(read_field(list, item, plan));
    if (of_rules && std::ranges::find(rules, word) == rules.end())
      return refused(list, problem(fmt::format("unknown rule '{}'", word), choice_hint(word, rules)));
    words.push_back(word);
  }
  return words;
}

}  // namespace plumbline::model
