#include "model/configurations/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/configurations/detail/collector.h"
#include "model/configurations/detail/shared.h"
#include "model/configurations/draft.h"
#include "model/configurations/format.h"

namespace plumbline::model::configurations {
namespace {

constexpr std::string_view kTopology = "h100-dgx";
constexpr std::size_t kLargestFile = 8 << 20;

std::string_view leaf(std::string_view key) { return key.substr(key.rfind('.') + 1); }

// Returns the keys of rows that are about one key each.
std::vector<std::string> single_keys(std::span<const KeyRow> rows) {
  std::vector<std::string> names;
  for (const KeyRow& row : rows)
    if (!row.name.ends_with(".*")) names.emplace_back(row.name);
  return names;
}

// Returns a question about the nearest name: of the whole key, else of its last part in another section.
std::string nearest(const std::vector<std::string>& names, std::string_view key) {
  std::string name = nearest_name(key, names);
  for (const std::string& other : names)
    if (leaf(other) == leaf(key)) name = other;
  return name.empty() ? "" : fmt::format(" (did you mean '{}'?)", name);
}

bool is_off(const Entry& entry) {
  static constexpr std::string_view words[] = {"",  "false", "False", "no",       "none", "None",   "auto",
                                               "0", "0.0",   "null",  "disabled", "NO",   "default"};
  return entry.items.empty() && std::ranges::find(words, entry.value) != std::end(words);
}

void copy_value(const Entry& entry, const KeyRow& row, Draft& draft) {
  if (!entry.is_null() && draft.text(entry.key)) {
    if (const auto count = parse_number<std::int64_t>(entry.value))
      draft.set(row.key, *count, entry.key);
    else if (const auto number = parse_number<double>(entry.value); number && std::isfinite(*number))
      draft.set(row.key, *number, entry.key);
    else if (const auto flag = entry.value == "true" || entry.value == "True";
             flag || entry.value == "false" || entry.value == "False")
      draft.set(row.key, flag, entry.key);
    else
      draft.set(row.key, entry.value, entry.key);
  }
}

// Sets what rows copy, notes what is unknown or not modelled, and returns how many keys change no cost.
std::int64_t read_rows(const ConfigurationFormat& format, Draft& draft) {
  std::int64_t no_cost = 0;
  const bool whole = draft.configuration().find("_target_") != nullptr;  // a dump states what is off, too
  const std::vector<std::string> names = single_keys(format.keys);
  std::map<std::string, std::string, std::less<>> questions;  // by key: elements of a list have one
  std::map<std::string_view, const Entry*> last;              // of each key, which holds
  for (const Entry& entry : draft.configuration().entries)
    if (!entry.is_null()) last[entry.key] = &entry;
  for (const Entry& entry : draft.configuration().entries) {
    const KeyRow* row = format.row(entry.key);
    const bool costs = row != nullptr && row->meaning != Meaning::no_cost && !entry.key.ends_with("[]");
    if (const Entry& held = costs && !entry.is_null() ? *last.at(entry.key) : entry;
        held.value != entry.value || held.items != entry.items) {
      draft.note_unknown(entry,
                         fmt::format(" = {}: not read; {} (line {}) holds", entry.value, held.written, held.line));
      continue;
    }
    const bool unset = !entry.is_list && (whole ? is_off(entry) : entry.value.empty());  // null
    const bool free = row == nullptr
                          ? unset
                          : row->meaning == Meaning::no_cost || (row->meaning == Meaning::not_modeled && is_off(entry));
    if (free) {
      ++no_cost;
    } else if (row == nullptr) {
      const auto [question, fresh] = questions.try_emplace(entry.key);
      if (fresh) question->second = nearest(names, entry.key);
      draft.note_unknown(entry, ": unknown; it may change the cost" + question->second);
    } else if (row->meaning == Meaning::not_modeled) {
      draft.not_modeled(entry.key, row->note);
    } else if (entry.unread && row->key.empty()) {
      draft.not_modeled(entry.key, "an expression, which is not run");
    } else if (entry.unread && !draft.given(row->key)) {
      draft.fail(entry.key, fmt::format("'{}' is an expression, which is not run", entry.value),
                 fmt::format("write its value in its place, or state --set {}=VALUE", row->key));
    } else if (row->meaning != Meaning::rule && !row->key.starts_with("shape.")) {
      copy_value(entry, *row, draft);
    }
  }
  return no_cost;
}

// Returns the keys of the plan that comments state, but for those of the options, and the options.
std::vector<std::string> with_comments(std::string_view text, const std::vector<std::string>& options) {
  std::vector<std::string> all;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t equals = line.find(" = ");
    if (!line.starts_with(kPlumblineComment) || equals == std::string_view::npos) continue;
    const std::string key(line.substr(kPlumblineComment.size(), equals - kPlumblineComment.size()));
    const bool of_options =
        std::ranges::any_of(options, [&key](const std::string& one) { return one.starts_with(key + "="); });
    if (!of_options) all.push_back(fmt::format("{}={}", key, line.substr(equals + 3)));
  }
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

// A reading of a file, and what else its assumptions may be.
struct Read {
  ImportedConfiguration imported;
  std::vector<std::string> open_choices;  // KEY=VALUE
};

Result<Read> read_configuration(const ConfigurationFormat& format, const Configuration& configuration,
                                const std::vector<std::string>& overrides, const ConfigurationImport& options) {
  Draft draft(configuration, format.program, overrides);
  ImportedConfiguration out;
  out.no_cost = read_rows(format, draft);
  std::optional<NamedModel> model;
  format.rules({draft, options, model});
  if (!draft.given("cluster.topology"))
    draft.assume("cluster.topology", kTopology, "the file does not name its cluster, --topology does");
  draft.note_defaults();
  out.plan = TRY(draft.plan());
  out.toml = draft.toml(out.plan);
  if (model && !model->config_json.empty()) out.config_json = model->config_json;
  out.notes = std::move(draft.notes());
  std::ranges::stable_sort(out.notes, {}, [](const Note& note) { return std::pair(note.kind, note.line); });
  return Read{std::move(out), draft.open_choices()};
}

// Adds the plans that the file would give without each of its keys, and with the other values of what was assumed.
void add_alternatives(const ConfigurationFormat& format, const Configuration& configuration,
                      std::vector<std::string> overrides, const ConfigurationImport& options, Read& read) {
  overrides.push_back(fmt::format("cluster.gpus={}", read.imported.plan.cluster.gpus));  // they are compared on as many
  const auto values = plan_values(read.imported.plan);
  const auto add = [&](int line, const std::string& text, const Result<Read>& other) {
    const bool again = std::ranges::any_of(read.imported.alternatives, [&](const auto& one) {
      return one.line == line && one.text == text;  // words that stand for several keys
    });
    if (!again && other && plan_values(other->imported.plan) != values)
      read.imported.alternatives.push_back({line, text, other->imported.plan});
  };
  // Keys without a row have notes alone, and a file can have many of them.
  Configuration known = configuration;
  std::erase_if(known.entries, [&](const Entry& entry) { return format.row(entry.key) == nullptr; });
  for (const Entry& entry : known.entries) {
    if (!decides_step(*format.row(entry.key))) continue;
    Configuration without = known;
    std::erase_if(without.entries, [&entry](const Entry& one) { return one.written == entry.written; });
    add(entry.line, "without " + entry.written, read_configuration(format, without, overrides, options));
  }
  for (const std::string& choice : read.open_choices) {
    std::vector<std::string> more = overrides;
    more.push_back(choice);
    add(0, "with " + choice, read_configuration(format, known, more, options));
  }
}

// Sets what a command line gives over the file: --training.local-batch-size 4, --compile.enable, --compile.no-enable.
Result<void> take_arguments(const std::vector<std::string>& arguments, const std::vector<Rename>& renames,
                            Configuration& configuration) {
  const auto refused = [](std::string_view argument) {
    return wrong_input("--", fmt::format("'{}' is no --SECTION.KEY of the configuration", argument),
                       "for example -- --training.local-batch-size 4; --config stands before --");
  };
  megatron::Command words;
  for (const std::string& argument : arguments) words.push_back({argument});
  if (!arguments.empty() && !arguments.front().starts_with("--")) return refused(arguments.front());
  for (Entry& entry : options_of(words, 0, renames)) {
    if (entry.is_list) return refused(entry.items[1]);
    if (entry.key.empty() || entry.key == "config" || entry.key == "module") return refused(entry.written);
    std::erase_if(configuration.entries, [&entry](const Entry& one) { return one.key == entry.key; });
    configuration.entries.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

const std::vector<ConfigurationFormat>& configuration_formats() {
  static const std::vector<ConfigurationFormat> formats = {
      torchtitan(), deepspeed(), accelerate(), nemo(), llama_factory(), axolotl(), ms_swift(),
      primus(),     automodel(), nanotron(),   verl(), nemo_rl(),       openrlhf()};
  return formats;
}

Result<ImportedConfiguration> import_configuration(const ConfigurationFormat& format, std::string_view text,
                                                   const std::string& path, const ConfigurationImport& options) {
  if (text.size() > kLargestFile)
    return wrong_input_at(path, 0, "", fmt::format("is larger than {} MiB", kLargestFile >> 20),
                          "a configuration is a short text");
  if (!options.function.empty() && !is_python(text))
    return wrong_input_at(path, 0, "", "is no file of Python, of which --config names a function",
                          "leave --config out");
  auto configuration = TRY(format.read({text, path, format.renames, options.function}));
  TRY(take_arguments(options.arguments, format.renames, configuration));
  const auto overrides = with_comments(text, options.overrides);
  auto read = TRY(read_configuration(format, configuration, overrides, options));
  add_alternatives(format, configuration, overrides, options, read);
  return std::move(read.imported);
}

}  // namespace plumbline::model::configurations
