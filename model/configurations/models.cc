// The model of a file that names one of Hugging Face, or has the keys of its config.json in a section.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

std::string json_of(const Entry& entry) {
  const auto scalar = [](const std::string& value) {
    const std::string lower = lower_case(value);
    if (lower == "true" || lower == "false") return lower;
    return parse_number<double>(value) ? value : toml_string(value);
  };
  if (!entry.is_list) return scalar(entry.value);
  std::vector<std::string> items;
  for (const std::string& item : entry.items) items.push_back(scalar(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

void read_named_model(const RuleInput& in, std::string_view key) {
  const auto stated = in.draft.text(key);
  if (!stated || in.draft.given("model.config")) return;
  std::string name = lower_case(stated->substr(stated->rfind('/') + 1));
  for (const std::string_view begin : {"meta-", "nvidia-"})
    if (name.starts_with(begin)) name = name.substr(begin.size());
  for (const std::string_view end : {"-instruct", "-base", "-chat", "-hf", "-it", "-v0.", "-thinking", "-bf16"})
    name = name.substr(0, name.find(end));
  constexpr std::pair<std::string_view, std::string_view> same[] = {// of the same dimensions
                                                                    {"llama-3.1-", "llama-3-"},
                                                                    {"llama-3.3-", "llama-3-"},
                                                                    {"qwen2.5-7b", "qwen2-7b"}};
  for (const auto& [other, shipped] : same)
    if (name.starts_with(other)) name = fmt::format("{}{}", shipped, name.substr(other.size()));
  if (stated->starts_with('/')) name = *stated + "/config.json";
  const bool is_name = name.find('-') != std::string::npos || name.starts_with('/');
  if (const auto model = in.options.load_model(name); model && is_name) return in.use_model({name, "", model->layers});
  in.draft.fail(key, fmt::format("no shipped model has the name '{}'", *stated), "--model names one, or a config.json");
}

void use_section(const RuleInput& in, std::string_view section, std::string_view model_type) {
  if (in.draft.given("model.config")) return;
  std::string json = fmt::format("{{\n  \"model_type\": {}", toml_string(model_type));
  for (const Entry& entry : in.draft.configuration().entries) {
    if (!entry.key.starts_with(section) || entry.is_null() || entry.unread) continue;
    const std::string_view key = std::string_view(entry.key).substr(section.size());
    // Tables of a config.json, such as that of rotary embeddings, decide no cost.
    if (key.find_first_of(".[") != std::string_view::npos || key.starts_with('_') || key == "model_type") continue;
    json += fmt::format(",\n  \"{}\": {}", key, json_of(entry));
  }
  const auto layers = in.draft.integer(fmt::format("{}num_hidden_layers", section));
  in.use_model({"", json + "\n}\n", layers.value_or(0)});
}

}  // namespace plumbline::model::configurations
