#include <fmt/format.h>

#include <regex>
#include <string>
#include <vector>

#include "reports/csv/csv_table.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

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
  const auto cell = [](const std::string& text) { return std::regex_replace(text, std::regex("[|]"), "\\|"); };
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
