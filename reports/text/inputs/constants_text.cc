#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/units.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::Parameter;

// The numbered sources, each printed once: many constants share one.
class Sources {
 public:
  std::size_t number_of(const std::string& source) {
    const auto found = std::ranges::find(sources_, source);
    if (found != sources_.end()) return static_cast<std::size_t>(found - sources_.begin()) + 1;
    sources_.push_back(source);
    return sources_.size();
  }

  std::string to_string() const {
    std::string out;
    constexpr std::size_t indent = 7;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      out += fmt::format("{:>{}}{}", fmt::format("[{}] ", i + 1), indent, hanging(sources_[i], indent));
    return out;
  }

 private:
  std::vector<std::string> sources_;
};

std::string spread_of(const Parameter& parameter) {
  if (parameter.relative_uncertainty) return fmt::format("{:.0f} %", *parameter.relative_uncertainty * 100);
  if (!parameter.low && !parameter.high) return "";
  return fmt::format("{:g}-{:g}", parameter.low.value_or(parameter.value), parameter.high.value_or(parameter.value));
}

// Returns one table; constants of a group ("exchange.dispatch") follow its name with only their last word.
std::string values_table(const std::vector<Parameter>& parameters) {
  Sources sources;
  Table table("constant | >value | unit | kind | >+- | >source");
  std::string group;
  for (const Parameter& parameter : parameters) {
    const std::size_t dot = parameter.name.rfind('.');
    const std::string own_group = dot == std::string::npos ? "" : parameter.name.substr(0, dot);
    if (own_group != group) table.add({fmt::format("[{}]", own_group)});
    group = own_group;
    table.row(parameter.name.substr(dot == std::string::npos ? 0 : dot + 1), fmt::format("{:.12g}", parameter.value),
              parameter.unit, model::to_string(parameter.kind), spread_of(parameter),
              fmt::format("[{}]", sources.number_of(parameter.source)));
  }
  return table.to_string() + '\n' + sources.to_string();
}

// Returns a heading, the constants by group, and the number of each kind.
std::string constants_text(const std::string& heading, std::vector<Parameter> parameters) {
  std::ranges::stable_sort(parameters, {}, [](const Parameter& p) { return p.name.substr(0, p.name.rfind('.')); });
  return wrapped(heading) + '\n' + values_table(parameters) + '\n' +
         fmt::format("{} constants: {}\n", parameters.size(), evidence_counts(parameters));
}

CsvTable csv_of(const std::vector<Parameter>& constants) {
  CsvTable table({"parameter", "value", "unit", "kind", "source", "relative_uncertainty", "low", "high", "stack"});
  for (const Parameter& c : constants)
    table.row(c.name, c.value, c.unit, model::to_string(c.kind), c.source, c.relative_uncertainty, c.low, c.high,
              c.stack);
  return table;
}

std::string value_of(const model::PlanSetting& setting) {
  std::string text = setting.value;
  if (!setting.instead_of.empty()) text += " instead of " + setting.instead_of;
  return setting.needs.empty() ? text : text + ", given " + setting.needs;
}

// Returns a table of settings with their sources below it; nothing where there are none.
std::string settings_text(const std::string& heading, const std::string& columns,
                          const std::vector<model::PlanSetting>& settings) {
  if (settings.empty()) return "";
  Sources sources;
  Table table(columns);
  for (const model::PlanSetting& setting : settings)
    table.row(setting.key, value_of(setting), model::to_string(setting.kind),
              fmt::format("[{}]", sources.number_of(setting.source)));
  return '\n' + heading + '\n' + table.to_string() + '\n' + sources.to_string();
}

using model::ConstantRule;

// Returns the usual unit of a dimension; profiles may have another one of the same dimension.
std::string_view usual_unit(model::UnitDimension dimension) {
  static constexpr std::string_view units[] = {"1",       "s",    "B",   "GB/s", "TFLOP/s",   "W",       "J",
                                               "pJ/FLOP", "pJ/B", "MHz", "USD",  "USD/GPU-h", "USD/kWh", "year"};
  return *std::ranges::find_if(
      units, [dimension](std::string_view unit) { return model::si_unit(unit)->dimension == dimension; });
}

std::string allowed(const ConstantRule& rule) {
  const double factor = model::si_unit(usual_unit(rule.dimension))->factor;
  if (rule.range.whole && rule.range.low == 0 && rule.range.high == 1) return "0 or 1";
  return fmt::format("{}{:.6g} to {:.6g}", rule.range.whole ? "a whole number, " : "", rule.range.low / factor,
                     rule.range.high / factor);
}

std::string one_constant_text(const ConstantRule& rule) {
  Table table("constant | " + rule.name);
  table.row("meaning", rule.meaning);
  table.add({"unit", fmt::format("{} ({})", usual_unit(rule.dimension), model::to_string(rule.dimension))});
  table.add({"allowed", allowed(rule)});
  return table.to_string() +
         fmt::format(
             "\nIts values, with their sources:\n  plumbline show profile PROFILE\nAnother value, for one prediction:\n"
             "  plumbline simulate PLAN --set profile.{}=VALUE\n",
             rule.name);
}

using model::PlanKey;

bool of_phase(const PlanKey& key) { return key.name.find(".phase.") != std::string::npos; }

// Returns the title of a key's section: the table that it stands in, or that of all aliases.
std::string section_of(const PlanKey& key) {
  if (key.alias) return "aliases";
  const std::string table = key.name.substr(0, key.name.rfind('.'));
  return of_phase(key) ? fmt::format("[[{}]]", table) : fmt::format("[{}]", table);
}

std::string leaf_of(const PlanKey& key) { return key.name.substr(key.name.rfind('.') + 1); }

std::string values_of(const PlanKey& key) {
  if (key.type == "flag" || key.alias || key.allowed.empty()) return key.alias ? key.allowed : key.type;
  return key.type.ends_with("word") && key.allowed.starts_with("one of ")
             ? key.allowed.substr(7)
             : fmt::format("{}, {}", key.type, key.allowed);
}

// Returns a value that the key takes, or VALUE where there is no obvious one.
std::string example_of(const PlanKey& key) {
  if (key.alias && key.allowed.starts_with("N")) return "8";
  if (key.alias && key.words.empty()) return "\"2x8\"";
  if (!key.words.empty()) {
    const bool list = key.type.starts_with("list of words") || key.type.starts_with("list of flags");
    const std::string last = key.words.back() == "true" || key.words.back() == "false"
                                 ? key.words[key.words.front() == key.default_value ? 1 : 0]
                                 : fmt::format("\"{}\"", key.words.back());
    return list ? fmt::format("[{}]", last) : last;
  }
  if (key.type == "date") return "\"2026-12-01\"";
  if (key.type == "value of JSON") return "VALUE";
  const bool stated = key.default_value != "required" && key.default_value != "not set" && key.default_value != "[]";
  return stated && !key.default_value.empty() ? key.default_value : "VALUE";
}

std::string one_key_text(const PlanKey& key) {
  Table table("key | " + key.name);
  table.add({"meaning", key.meaning});
  if (!key.unit.empty()) table.add({"unit", key.unit});
  table.add({"type", key.type});
  if (!key.allowed.empty()) table.add({"allowed", key.allowed});
  if (!key.default_value.empty()) table.add({"default", key.default_value});
  table.add({"since", key.since});
  const std::string table_name = key.name.substr(0, key.name.rfind('.'));
  const std::string value = example_of(key);
  std::string text = table.to_string();
  text += fmt::format("\nIn a plan:\n  {0}{1}{2}\n  {3} = {4}\n", of_phase(key) ? "[[" : "[", table_name,
                      of_phase(key) ? "]]" : "]", leaf_of(key), value);
  if (of_phase(key)) return text;
  const bool quoted = value.find('"') != std::string::npos && value.find('[') == std::string::npos;
  const std::string word = quoted ? value.substr(1, value.size() - 2) : value;
  text += fmt::format("On the command line:\n  plumbline simulate PLAN --set {}\n",
                      word.find_first_of(" [{\"") == std::string::npos ? fmt::format("{}={}", key.name, word)
                                                                       : fmt::format("'{}={}'", key.name, word));
  return text;
}

}  // namespace

std::vector<Parameter> constants_of(const model::ClusterShape& cluster) {
  std::vector<Parameter> parameters = cluster.parameters;
  std::ranges::copy(cluster.prices.stated(), std::back_inserter(parameters));
  return parameters;
}

std::string constants_csv(const std::vector<Parameter>& constants) { return csv_of(constants).text(); }

std::string stack_csv(const model::Stack& stack) {
  CsvTable table = csv_of(stack.parameters);
  const auto add = [&](const std::string& name, const model::PlanSetting& s) {
    table.row(name, value_of(s), "", model::to_string(s.kind), s.source, "", "", "", "");
  };
  for (const model::PlanSetting& setting : stack.settings) add(setting.key, setting);
  for (const model::PlanSetting& list : stack.has) add("has " + list.key, list);
  return table.text();
}

std::string topology_text(const model::ClusterShape& cluster) {
  const std::string heading =
      fmt::format("{}: nodes of {} {}, {} NICs each; profile {}", cluster.name, cluster.gpus_per_node,
                  cluster.device.name, cluster.nics_per_node, cluster.default_profile);
  return constants_text(heading, constants_of(cluster));
}

std::string profile_text(const model::Profile& profile) {
  const std::vector<std::string>& devices = profile.devices();
  const std::string holds = devices.empty() ? "" : fmt::format("; holds for {}", fmt::join(devices, ", "));
  const std::string stack = profile.stack().empty() ? "" : fmt::format("; software stack {}", profile.stack());
  return constants_text(fmt::format("{}: {}{}{}", profile.name(), profile.description(), holds, stack),
                        profile.parameters());
}

std::string stack_text(const model::Stack& stack) {
  const std::string heading = fmt::format("{}: {}", stack.name, stack.description);
  std::string text = stack.parameters.empty() ? wrapped(heading) : constants_text(heading, stack.parameters);
  if (!stack.devices.empty())
    text += paragraph(fmt::format("On {} a plan that names {} has it.", fmt::join(stack.devices, ", "), stack.extends));
  for (const Parameter& parameter : stack.parameters)
    if (!parameter.rows.empty())
      text += paragraph(fmt::format("{} is fitted to rows of {}.", parameter.name, fmt::join(parameter.rows, ", ")));
  return text +
         settings_text("A plan that does not give these keys takes:", "setting | value | kind | >source",
                       stack.settings) +
         settings_text("Of these keys the software has:", "key | values | kind | >source", stack.has);
}

std::string reliability_text(const calibrate::Reliability& reliability) {
  double per_gpu_hour = 0;
  for (const sim::FailureMode& mode : reliability.failures)
    if (mode.slows <= 1) per_gpu_hour += mode.per_gpu_hour;
  Table table(">GPUs | >hours between failures");
  for (const int gpus : {1024, 2048, 16384, 131072}) table.row(gpus, fmt::format("{:.3g}", 1 / (per_gpu_hour * gpus)));
  return constants_text(fmt::format("{}: {}", reliability.name, reliability.description), reliability.parameters) +
         '\n' + table.to_string();
}

std::string stacks_text(const std::vector<model::Stack>& stacks) {
  Table table("stack | >constants | >settings | description");
  for (const model::Stack& stack : stacks)
    table.row(stack.name, stack.parameters.size(), stack.settings.size(), stack.description);
  return table.to_string();
}

std::string stacks_csv(const std::vector<model::Stack>& stacks) {
  CsvTable table({"stack", "constants", "settings", "description"});
  for (const model::Stack& stack : stacks)
    table.row(stack.name, stack.parameters.size(), stack.settings.size(), stack.description);
  return table.text();
}

std::string constant_rules_text(const std::vector<ConstantRule>& rules) {
  if (rules.size() == 1) return one_constant_text(rules.front());
  Table table("constant | unit | meaning");
  for (const ConstantRule& rule : rules) table.row(rule.name, usual_unit(rule.dimension), rule.meaning);
  return table.to_string() + "\nplumbline show profile PROFILE has their values, with sources.\n";
}

std::string constant_rules_csv(const std::vector<ConstantRule>& rules) {
  CsvTable table({"constant", "meaning", "unit", "allowed"});
  for (const ConstantRule& rule : rules) table.row(rule.name, rule.meaning, usual_unit(rule.dimension), allowed(rule));
  return table.text();
}

std::string keys_text(const std::vector<PlanKey>& keys) {
  if (keys.size() == 1) return one_key_text(keys.front());
  Table table("key | default | unit | meaning");
  std::string section;
  for (const PlanKey& key : keys) {
    if (section_of(key) != section) table.add({section = section_of(key)});
    table.add({key.alias ? key.name : leaf_of(key), key.default_value, key.unit, key.meaning});
  }
  return table.to_string() + "\nplumbline show key NAME has the allowed values of a key, and examples.\n";
}

std::string keys_csv(const std::vector<PlanKey>& keys) {
  CsvTable table({"key", "meaning", "unit", "type", "allowed", "default", "since", "alias"});
  for (const PlanKey& key : keys)
    table.row(key.name, key.meaning, key.unit, key.type, key.allowed, key.default_value, key.since, key.alias);
  return table.text();
}

std::string keys_markdown(const std::vector<PlanKey>& keys) {
  // A bar would end the cell.
  const auto cell = [](std::string_view written) {
    std::string escaped;
    for (const char letter : written) escaped += letter == '|' ? "\\|" : std::string(1, letter);
    return escaped;
  };
  std::string text =
      "# Keys of a plan\n\n"
      "Every key with its meaning, unit, default, values and the version that brought it. "
      "`plumbline show key --markdown` writes this page from the table that the reader of plans uses, and "
      "`plumbline show key NAME` prints one key. `[model]` also takes every key of the model's config.json.\n\n"
      "## Completion and man pages\n\n"
      "The same table and the tree of verbs give completion and man pages, which an installation puts in their places: "
      "`source <(plumbline completion bash)` (or `zsh`, `fish`) completes verbs, options, shipped names, keys after "
      "`--set` and their values; `plumbline man VERB` and `plumbline man keys` print pages for `man -l -`.\n";
  std::string section;
  for (const PlanKey& key : keys) {
    if (section_of(key) != section) {
      section = section_of(key);
      text += fmt::format("\n## {}\n\n", key.alias ? "Aliases" : fmt::format("`{}`", section));
      if (key.alias)
        text +=
            "Words of FSDP and torchtitan, which set the keys above; `--set` also takes their last part alone. "
            "A plan is printed with the keys.\n\n";
      text += key.alias ? "| alias | value | since | meaning |\n|---|---|---|---|\n"
                        : "| key | values | default | unit | since | meaning |\n|---|---|---|---|---|---|\n";
    }
    text += key.alias
                ? fmt::format("| `{}` | `{}` | {} | {} |\n", key.name, cell(key.allowed), key.since, cell(key.meaning))
                : fmt::format("| `{}` | {} | `{}` | {} | {} | {} |\n", leaf_of(key), cell(values_of(key)),
                              key.default_value, key.unit, key.since, cell(key.meaning));
  }
  return text;
}

}  // namespace plumbline::reports
