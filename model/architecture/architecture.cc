#include "model/architecture/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/config_reader.h"
#include "model/architecture/families/families.h"
#include "model/plan/plan.h"

namespace plumbline::model {
namespace {

void fail_unknown_type(ConfigReader& config, const std::string& found) {
  std::vector<std::string> names;
  for (const ModelType& type : model_types) names.emplace_back(type.name);
  config.fail("model_type", found.empty() ? "required key is missing" : fmt::format("unknown model type '{}'", found),
              known_names(found, names));
}

// An override that nothing asked for would change nothing.
void refuse_unread(ConfigReader& config, const ConfigOverrides& overrides, const std::string& model_type) {
  for (const auto& [key, value] : overrides) {
    if (std::ranges::find(config.asked(), key) != config.asked().end()) continue;
    const std::string nearest = nearest_name(key, config.asked());
    config.fail(key, fmt::format("a model of type {} has no such key", model_type),
                nearest.empty() ? fmt::format("one of {}", fmt::join(config.asked(), ", "))
                                : fmt::format("did you mean 'model.{}'?", nearest));
  }
}

Result<Architecture> read_architecture(const std::string& path, const ConfigOverrides& overrides) {
  auto config = ConfigReader::open(path, overrides);
  if (!config) return tl::unexpected(config.error());
  Architecture model;
  model.name = std::filesystem::path(path).stem().string();
  model.model_type = config->text("model_type", "");
  const auto* type = std::ranges::find(model_types, std::string_view(model.model_type), &ModelType::name);
  if (type != model_types.end()) {
    type->read(*config, model);
    refuse_unread(*config, overrides, model.model_type);
  } else {
    fail_unknown_type(*config, model.model_type);
  }
  if (config->error()) return tl::unexpected(*config->error());
  return model;
}

}  // namespace

bool Architecture::is_moe_layer(std::int64_t layer) const {
  return experts.routed_experts > 0 && layer >= experts.dense_layers_first &&
         layer % experts.layer_frequency == experts.layer_offset &&
         std::ranges::find(experts.dense_layers, layer) == experts.dense_layers.end();
}

bool Architecture::is_windowed_layer(std::int64_t layer) const {
  return window.tokens > 0 && layer >= window.first_layer;
}

std::int64_t Architecture::query_key_head_dim() const {
  return attention == AttentionKind::multi_head_latent ? latent.qk_nope_head_dim + latent.qk_rope_head_dim : head_dim;
}

std::int64_t Architecture::value_head_dim() const {
  return attention == AttentionKind::multi_head_latent ? latent.v_head_dim : head_dim;
}

Result<Architecture> load_architecture(const std::string& path) { return read_architecture(path, {}); }

Result<Architecture> load_architecture_of(const Plan& plan, const std::string& path) {
  return read_architecture(path, plan.model.overrides).map_error([&plan](const Error& error) {
    if (!plan.model.overrides.contains(error.key)) return error;
    return plan_error(plan, error.kind, "model." + error.key, error.message, error.hint);
  });
}

std::vector<std::string> config_keys() {
  std::vector<std::string> keys = {"model_type"};
  for (const ModelType& type : model_types) {
    ConfigReader config = ConfigReader::empty();
    Architecture model;
    type.read(config, model);
    for (const std::string& key : config.asked()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace plumbline::model
