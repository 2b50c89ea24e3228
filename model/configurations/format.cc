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

std::optional<Architecture> RuleInput::architecture() const {
  const auto config = draft.word("model.config");
  if (!config || draft.error() || (model && model->shipped.empty())) return std::nullopt;
  auto loaded = options.load_model(*config);
  if (!loaded) draft.fail(loaded.error());
  return loaded ? std::optional(std::move(*loaded)) : std::nullopt;
}

std::optional<std::int64_t> RuleInput::layers() const {
  if (model) return model->layers;
  const auto loaded = architecture();
  return loaded ? std::optional(loaded->layers) : std::nullopt;
}

}  // namespace plumbline::model::configurations
