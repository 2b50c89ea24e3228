// Converts a model between Megatron's arguments and a Hugging Face config.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/config_value.h"
#include "model/base/error.h"
#include "model/megatron/model_shape.h"

namespace plumbline::model::megatron {

struct WrittenConfig {
  std::string json;
  std::string model_type;
  std::vector<std::string> notes;  // parts of the shape that the model type cannot express
};

// Returns the config.json of the nearest model type: deepseek_v3 or deepseek_v2 for latent attention, mixtral,
// qwen2_moe, qwen3_moe and gpt_oss for other experts, llama, mistral, qwen2 and qwen3 for gated dense models, gpt2 and
// gpt_neox for plain ones. Requires layers, hidden size, heads and vocabulary. Infeasible when no type comes near.
Result<WrittenConfig> config_of(const ModelShape& shape);

// Returns the shape of a config.json with `overrides` applied. Errors name `path`: those of the architecture readers,
// and a model type that Megatron's arguments cannot describe.
Result<ModelShape> shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides);

}  // namespace plumbline::model::megatron
