#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/config_reader.h"
#include "model/architecture/families/families.h"
#include "model/megatron/model_shape.h"

namespace plumbline::model::megatron {
namespace {

// Model types that Megatron's arguments describe.
constexpr std::string_view described_types[] = {
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe",     "gpt2",      "gpt_neox",   "gpt_oss",
    "internlm2",   "kimi_k2",     "llama",        "mistral",      "mixtral",   "nemotron_h", "phi3",
    "qwen2",       "qwen2_moe",   "qwen3",        "qwen3_5_text", "qwen3_moe", "qwen3_next"};

std::vector<bool> layers_with(const Architecture& model, bool (*has)(const LayerKind& kind)) {
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) layers.push_back(has(model.layer(layer)));
  return layers;
}

void take_window(const Architecture& model, ModelShape& shape) {
  const auto windowed =
      layers_with(model, [](const LayerKind& kind) { return kind.mixer == Mixer::windowed_attention; });
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  shape.window = model.window.tokens;
  if (std::ranges::find(windowed, false) != windowed.end()) shape.window_layers = linear_layers_text(windowed);
}

void take_attention(const Architecture& model, ModelShape& shape) {
  const LatentAttention& latent = model.latent;
  shape.latent = model.attention == AttentionKind::multi_head_latent;
  shape.heads = model.heads;
  shape.grouped_query = !shape.latent && model.key_value_heads != model.heads;
  if (shape.grouped_query) shape.query_groups = model.key_value_heads;
  shape.qk_norm = model.query_key_norm || shape.latent;  // with latents Megatron's flag for the norms after them
  shape.no_linear_bias =
      shape.latent || !(model.mlp == MlpKind::gelu ? model.biases.mlp : model.biases.attention_output);
  shape.qkv_bias = !shape.latent && shape.no_linear_bias && model.biases.query_key_value;
  if (!shape.latent) return;
  if (latent.q_lora_rank > 0) shape.q_lora_rank = latent.q_lora_rank;
  shape.kv_lora_rank = latent.kv_lora_rank;
  shape.qk_head_dim = latent.qk_nope_head_dim;
  shape.qk_position_dim = latent.qk_rope_head_dim;
  shape.v_head_dim = latent.v_head_dim;
}

// Returns the symbol of a layer that does one thing.
char symbol_of(const LayerKind& kind) {
  if (kind.mixer != Mixer::none) return kind.mixer == Mixer::recurrence ? 'M' : '*';
  return kind.feed_forward == FeedForward::experts ? 'E' : '-';
}

void take_mixers(const Architecture& model, ModelShape& shape) {
  shape.output_gate = model.output_gate;
  if (model.sparse.tokens > 0) {
    shape.attention_variant = "dsa";
    shape.indexer_heads = model.sparse.heads;
    shape.indexer_dim = model.sparse.head_dim;
    shape.indexer_tokens = model.sparse.tokens;
  }
  const Recurrence& recurrence = model.recurrence;
  if (model.model_type == "nemotron_h") {
    for (const LayerKind& kind : model.pattern) shape.pattern += symbol_of(kind);
    shape.squared_relu = true;
    shape.mamba_heads = recurrence.value_heads;
    shape.mamba_head_dim = recurrence.value_dim;
    shape.mamba_groups = recurrence.key_heads;
    shape.mamba_state = recurrence.key_dim;
  } else if (recurrence.value_heads > 0 && recurrence.kind == RecurrenceKind::gated_delta) {
    shape.attention_variant = "gated_delta_net";
    shape.linear_layers =
        linear_layers_text(layers_with(model, [](const LayerKind& kind) { return kind.mixer == Mixer::recurrence; }));
    shape.linear_convolution = recurrence.convolution;
    shape.linear_key_dim = recurrence.key_dim;
    shape.linear_value_dim = recurrence.value_dim;
    shape.linear_key_heads = recurrence.key_heads;
    shape.linear_value_heads = recurrence.value_heads;
  }
}

void take_experts(const Architecture& model, ModelShape& shape) {
  const MixtureOfExperts& experts = model.experts;
  if (experts.routed_experts == 0) return;
  shape.experts = experts.routed_experts;
  shape.experts_per_token = experts.experts_per_token;
  if (experts.intermediate_size != model.intermediate_size || shape.latent)
    shape.expert_ffn = experts.intermediate_size;
  if (experts.latent_size > 0) shape.expert_latent = experts.latent_size;
  if (experts.shared_experts > 0) shape.shared_expert_ffn = experts.shared_width();
  shape.shared_gate = experts.shared_gate;
  const auto sparse =
      layers_with(model, [](const LayerKind& kind) { return kind.feed_forward == FeedForward::experts; });
  if (shape.pattern.empty()) shape.expert_layers = expert_layers_text(sparse);
  shape.router_score = experts.score == ScoreFunction::sigmoid ? "sigmoid" : "softmax";
  if (!shape.latent && shape.pattern.empty() && model.model_type != "glm4_moe") return;
  shape.router_scaling = experts.scaling_factor;
  shape.router_bias = model.model_type != "deepseek_v2";
  if (experts.groups == 1) return;
  shape.expert_groups = experts.groups;
  shape.groups_per_token = experts.groups_per_token;
}

ModelShape shape_from(const Architecture& model) {
  ModelShape shape;
  shape.layers = model.layers;
  shape.hidden_size = model.hidden_size;
  shape.ffn_hidden_size = model.intermediate_size;
  shape.vocabulary = model.vocabulary;
  shape.max_positions = model.position_table;
  shape.position = model.positions == PositionKind::learned ? "learned_absolute"
                   : model.positions == PositionKind::none  ? "none"
                                                            : "rope";
  shape.rotary_base = static_cast<std::int64_t>(model.rope_theta);
  if (model.rotary_dim > 0)
    shape.rotary_percent = static_cast<double>(model.rotary_dim) / static_cast<double>(model.head_dim);
  shape.normalization = model.norm == NormKind::layer ? "LayerNorm" : "RMSNorm";
  shape.norm_epsilon = model.norm_epsilon;
  shape.quick_geglu = model.model_type == "gpt_oss";
  if (shape.quick_geglu) shape.softmax = "learnable";
  if (model.swiglu_limit > 0) shape.clamp = model.swiglu_limit;
  shape.gated = model.mlp == MlpKind::swiglu && !shape.quick_geglu;
  shape.untied = !model.tied_embedding;
  if (model.multi_token_prediction_layers > 0) shape.prediction_layers = model.multi_token_prediction_layers;
  take_window(model, shape);
  take_attention(model, shape);
  take_mixers(model, shape);
  take_experts(model, shape);
  return shape;
}

// Sets what only Megatron needs from a config.json: the number of positions of the model, and a head's size that is
// stated even where it is the default share of the hidden size.
void take_stated(ConfigReader& config, const Architecture& model, ModelShape& shape) {
  if (model.positions != PositionKind::learned)
    shape.max_positions = static_cast<std::int64_t>(config.number("max_position_embeddings", 0));
  const std::int64_t stated = config.count("head_dim", 0);
  const bool own = !shape.latent && model.head_dim != model.hidden_size / model.heads;
  if (stated > 0 || own) shape.kv_channels = stated > 0 ? stated : model.head_dim;
}

Error refusal(const std::string& path, const std::string& type) {
  return {ErrorKind::input,
          fmt::format("Megatron's arguments cannot describe a model of type '{}'", type),
          path,
          0,
          "model_type",
          fmt::format("{}", fmt::join(described_types, ", "))};
}

}  // namespace

Result<ModelShape> nearest_shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides) {
  auto config = TRY(ConfigReader::parse(std::string(json), path, overrides));
  Architecture model;
  model.model_type = config.text("model_type", "");
  if (!read_model(config, model).empty()) return tl::unexpected(refusal(path, model.model_type));
  if (config.error()) return tl::unexpected(*config.error());
  ModelShape shape = shape_from(model);
  take_stated(config, model, shape);
  if (config.error()) return tl::unexpected(*config.error());
  return shape;
}

Result<ModelShape> shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides) {
  auto config = TRY(ConfigReader::parse(std::string(json), path, overrides));
  const std::string type = config.text("model_type", "");
  if (std::ranges::find(described_types, type) == std::end(described_types)) return tl::unexpected(refusal(path, type));
  return nearest_shape_of(json, path, overrides);
}

}  // namespace plumbline::model::megatron
