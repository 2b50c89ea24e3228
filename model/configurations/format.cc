#include "model/configurations/format.h"

#include <utility>

namespace plumbline::model::configurations {

void RuleInput::use_model(NamedModel named) const {
  if (draft.given("model.config")) return;
  if (!named.shipped.empty()) {
    draft.set("model.config", named.shipped, "");
  } else if (options.adjacent_config.empty()) {
    return draft.fail("", "the model of the file needs a file next to the plan",
                      "name the plan's file with -o, or a model with --model");
  } else {
    draft.set("model.config", options.adjacent_config, "");
  }
  model = std::move(named);
}

const KeyRow* ConfigurationFormat::row(std::string_view key) const {
  const KeyRow* best = nullptr;
  for (const KeyRow& row : keys) {
    const std::string_view section = row.name.ends_with(".*") ? row.name.substr(0, row.name.size() - 2) : "";
    const bool below = !section.empty() && key.starts_with(section) && key.substr(section.size()).starts_with('.');
    if (row.name == key) return &row;
    if ((section == key || below) && (best == nullptr || row.name.size() > best->name.size())) best = &row;
  }
  const KeyRow* other = others == nullptr ? nullptr : others(key);
  return other == nullptr ? best : other;
}

std::optional<Architecture> RuleInput::architecture() const {
  const auto config = draft.word("model.config");
  if (!config || draft.error() || (model && model->shipped.empty())) return std::nullopt;
  auto loaded = options.load_model(*config);
  if (!loaded) draft.fail(loaded.error());
  return loaded ? std::optional(std::move(*loaded)) : std::nullopt;
}

bool RuleInput::has_experts() const {
  if (model && !model->config_json.empty()) return model->config_json.find("_experts\"") != std::string::npos;
  const auto loaded = architecture();
  return loaded && loaded->experts.routed_experts > 0;
}

std::optional<std::int64_t> RuleInput::layers() const {
  if (model) return model->layers;
  const auto loaded = architecture();
  return loaded ? std::optional(loaded->layers) : std::nullopt;
}

}  // namespace plumbline::model::configurations
