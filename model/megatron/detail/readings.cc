#include "model/megatron/detail/readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/detail/fields.h"

namespace plumbline::model::megatron {
namespace {

using Items = std::map<std::string, std::string, std::less<>>;

constexpr std::size_t most_named = 6;  // keys in one error

// Returns everything in which two readings can differ, by name.
Items items_of(const Result<ImportedScript>& imported) {
  Items texts;
  if (!imported) {
    texts["the import"] = imported.error().key + " " + imported.error().message;
    return texts;
  }
  texts.merge(plan_values(imported->plan));
  visit_shape(imported->shape, [&texts](std::string_view key, const auto& field) {
    texts["the model's " + std::string(key.substr(key.find('.') + 1))] = text_of_field(field);
  });
  for (const std::string& argument : imported->unread)
    texts[argument.substr(0, argument.find(' '))] = argument.substr(std::min(argument.size(), argument.find(' ')));
  return texts;
}

std::string shown(const Items& texts, const std::string& key) {
  const auto found = texts.find(key);
  if (found == texts.end()) return "not set";
  if (key == "the import") return fmt::format("refused ({})", found->second);
  return found->second.empty() ? "given" : found->second;
}

// Returns "KEY is A or B, ..." of the keys that differ; nothing where none does.
std::string differences(const Items& one, const Items& other) {
  Items all = one;
  all.insert(other.begin(), other.end());
  // Of a reading that is refused the reason is all that there is to compare.
  const bool refused = one.contains("the import") || other.contains("the import");
  std::string text;
  std::size_t count = 0;
  for (const auto& [key, ignored] : all) {
    if ((refused && key != "the import") || (one.contains(key) && other.contains(key) && one.at(key) == other.at(key)))
      continue;
    if (++count > most_named) continue;
    text += fmt::format("{}{} is {} or {}", text.empty() ? "" : ", ", key,
                        refused && !one.contains(key) ? "read" : shown(one, key),
                        refused && !other.contains(key) ? "read" : shown(other, key));
  }
  return count > most_named ? fmt::format("{}, and {} more", text, count - most_named) : text;
}

Error error_of(const Reading& one, const Reading& other, const std::string& differing) {
  const auto& left = one.script->decisions;
  const auto& right = other.script->decisions;
  std::size_t at = 0;
  while (at + 1 < left.size() && at + 1 < right.size() && left[at].taken == right[at].taken) ++at;
  const Decision& decision = left[at];
  const std::size_t file =
      std::min(static_cast<std::size_t>(decision.line / lines_of_a_file), one.script->files.size() - 1);
  std::string names;
  for (const std::string& name : decision.names)
    names += (names.empty() ? "" : " or ") + fmt::format("--define {}=VALUE", name);
  const std::string outcomes =
      fmt::format("where {} and where {}", decision.outcomes[decision.taken], right[at].outcomes[right[at].taken]);
  return {ErrorKind::input,
          fmt::format("'{}' is not decided by the script; {}: {}", decision.condition, outcomes, differing),
          one.script->files[file],
          decision.line % lines_of_a_file,
          "",
          names.empty() ? "only the machine that runs it decides; leave the branch that holds in a copy of the script"
                        : names + " decides"};
}

}  // namespace

std::optional<Error> difference(const std::vector<Reading>& readings) {
  std::vector<Items> texts;
  for (const Reading& reading : readings) texts.push_back(items_of(reading.imported));
  // Neighboring readings differ in one condition, and in those that are reached behind it.
  for (std::size_t i = 1; i < readings.size(); ++i) {
    const std::string differing = differences(texts[i - 1], texts[i]);
    if (!differing.empty()) return error_of(readings[i - 1], readings[i], differing);
  }
  return std::nullopt;
}

}  // namespace plumbline::model::megatron
