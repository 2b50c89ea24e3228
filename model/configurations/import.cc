#include "model/configurations/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/base/text.h"
#include "model/configurations/detail/shared.h"
#include "model/configurations/draft.h"
#include "model/configurations/format.h"

namespace plumbline::model::configurations {
namespace {

constexpr std::string_view kTopology = "h100-dgx";

const KeyRow* row_of(std::span<const KeyRow> rows, std::string_view key) {
  const KeyRow* best = nullptr;
  for (const KeyRow& row : rows) {
    const bool below = row.name.ends_with(".*") && key.starts_with(row.name.substr(0, row.name.size() - 1));
    if ((row.name == key || below) && (best == nullptr || row.name.size() > best->name.size())) best = &row;
  }
  return best;
}

std::string_view leaf(std::string_view key) { return key.substr(key.rfind('.') + 1); }

// Returns a question about the nearest name: of the whole key, else of its last part in another section.
std::string nearest(std::span<const KeyRow> rows, std::string_view key) {
  std::vector<std::string> names;
  for (const KeyRow& row : rows)
    if (!row.name.ends_with(".*")) names.emplace_back(row.name);
  std::string name = nearest_name(key, names);
  for (const std::string& other : names)
    if (leaf(other) == leaf(key)) name = other;
  return name.empty() ? "" : fmt::format(" (did you mean '{}'?)", name);
}

bool is_off(const Entry& entry) {
  static constexpr std::string_view words[] = {"",     "false", "False", "no",   "none",     "None",
                                               "auto", "0",     "0.0",   "null", "disabled", "NO"};
  return entry.items.empty() && std::ranges::find(words, entry.value) != std::end(words);
}

void copy_value(const Entry& entry, const KeyRow& row, Draft& draft) {
  if (draft.text(entry.key)) {
    if (const auto count = parse_number<std::int64_t>(entry.value))
      draft.set(row.key, *count, entry.key);
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
  for (const Entry& entry : draft.configuration().entries) {
    const KeyRow* row = row_of(format.keys, entry.key);
    if (row == nullptr) {
      draft.note(Note::Kind::unknown, entry.key,
                 fmt::format("{}: unknown; it may change the cost{}", entry.written, nearest(format.keys, entry.key)));
    } else if (row->meaning == Meaning::no_cost || (row->meaning == Meaning::not_modeled && is_off(entry))) {
      ++no_cost;
    } else if (row->meaning == Meaning::not_modeled) {
      draft.not_modeled(entry.key, row->note);
    } else if (row->meaning == Meaning::value && !row->key.starts_with("shape.")) {
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

}  // namespace

const std::vector<ConfigurationFormat>& configuration_formats() {
  static const std::vector<ConfigurationFormat> formats = {torchtitan(), deepspeed(), accelerate(), nemo()};
  return formats;
}

Result<ImportedConfiguration> import_configuration(const ConfigurationFormat& format, std::string_view text,
                                                   const std::string& path, const ConfigurationImport& options) {
  const auto configuration = TRY(format.read(text, path, format.renames));
  const auto overrides = with_comments(text, options.overrides);
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
  return out;
}

}  // namespace plumbline::model::configurations
