// A transformer as Megatron's arguments describe it, and as a Hugging Face config.json. The defaults are Megatron's.
//
// Reads and writes the patterns of Megatron's hybrid models, of which each layer does one thing
// (megatron/core/models/hybrid/hybrid_layer_allocation.py of Megatron-LM @089b33b8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/config_value.h"
#include "model/base/error.h"

namespace plumbline::model::megatron {

struct ModelShape {
#define FIELD(type, name, missing) type name = missing;
#include "model/megatron/model_shape.def"

  std::int64_t ffn() const;
  std::int64_t ffn_of_expert() const { return expert_ffn.value_or(ffn()); }
  std::int64_t head_dim() const { return kv_channels.value_or(hidden_size / heads); }
  std::int64_t key_value_heads() const { return grouped_query ? query_groups : heads; }
  std::int64_t mamba_head_count() const;
};

// Calls visit(name, field) with the names that the table of arguments uses.
template <class Shape, class Visitor>
void visit_shape(Shape& shape, Visitor&& visit) {
#define FIELD(type, name, missing) visit("shape." #name, shape.name);
#include "model/megatron/model_shape.def"
}

// Return of each layer whether an argument names it: for experts every n-th from the first one on, for linear attention
// and windows all but the n-th, 2n-th, ..., or those of a list. Nothing for other text and a list of another length.
std::optional<std::vector<bool>> parse_expert_layers(const std::string& text, std::int64_t layers);
std::optional<std::vector<bool>> parse_linear_layers(const std::string& text, std::int64_t layers);
std::string expert_layers_text(const std::vector<bool>& sparse);
std::string linear_layers_text(const std::vector<bool>& linear);

struct WrittenConfig {
  std::string json;
  std::string model_type;
  std::vector<std::string> notes;  // parts of the shape that the model type cannot express
};

// Returns the config.json of the nearest model type: nemotron_h for a pattern of layers, qwen3_next and qwen3_5_text
// for Gated DeltaNet, deepseek_v32, deepseek_v3 or deepseek_v2 for latent attention, glm4_moe for its router with other
// attention, mixtral, qwen2_moe, qwen3_moe and gpt_oss for other experts, llama, mistral, qwen2 and qwen3 for gated
// dense models, gpt2 and gpt_neox for plain ones. Requires layers, hidden size, heads and vocabulary. Infeasible when
// no type comes near.
Result<WrittenConfig> config_of(const ModelShape& shape);

// Returns the shape of a config.json with `overrides` applied. Errors name `path`: those of the architecture readers,
// and a model type that Megatron's arguments cannot describe.
Result<ModelShape> shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides);

// Returns what the arguments have of any model type that is read.
Result<ModelShape> nearest_shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides);

struct HybridPattern {
  std::string layers;                // a symbol each
  std::vector<std::int64_t> counts;  // of the layers of each stage; one number: no stages are stated
  std::string prediction;            // the layers of each prediction module
  std::int64_t predictions = 0;      // how many modules there are
};

// Parses "M-M*|[ME]*E/*E/*E". Brackets group layers for checkpoints and change nothing here. Returns nothing for other
// text, and for modules that differ.
std::optional<HybridPattern> parse_hybrid_pattern(std::string_view text);

// Returns such a text, with a module "*E" for each prediction layer.
std::string hybrid_pattern_text(std::string_view layers, const std::vector<std::int64_t>& counts,
                                std::int64_t predictions);

// Returns the layers that shares of attention and MLPs give: both spread evenly between those of Mamba-2
// (_allocate_auto() of megatron/core/ssm/mamba_hybrid_layer_allocation.py @00caa53a). Shares that make no layers give
// none.
std::string hybrid_layers_of_shares(std::int64_t layers, double attention, double mlp);

// Returns whether each two layers are one of attention and an MLP or experts, which a model without Mamba-2 is read as.
bool is_paired(std::string_view layers);

// Sets the layers of the shape, and its prediction modules: none where no model type has such ones. Infeasible where no
// model type has such layers.
Result<void> take_hybrid_layers(const HybridPattern& pattern, ModelShape& shape);

}  // namespace plumbline::model::megatron
