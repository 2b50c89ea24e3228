// Qwen3-Next and the text models of Qwen3.5: Gated DeltaNet (arXiv 2412.06464) with gated attention in each fourth
// layer; OLMo Hybrid, with OLMo 2's attention there (huggingface/transformers @06ad6bc
// src/transformers/models/olmo_hybrid/configuration_olmo_hybrid.py). Keys and their values where missing:
// huggingface/transformers @008e574 src/transformers/models/qwen3_next and qwen3_5_moe, configuration_*.py;
// projections: @043bb8d qwen3_next/modular_qwen3_next.py, Qwen3NextGatedDeltaNet and Qwen3NextAttention.
#include <algorithm>
#include <cstdint>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

void read_hybrid(ConfigReader& config, Architecture& model, std::int64_t key_value_heads, bool dense_mlp) {
  read_llama_like(config, model,
                  {.key_value_heads = key_value_heads,
                   .head_dim = 256,
                   .dense_mlp = dense_mlp,
                   .biases = attention_biases,
                   .head_norm = HeadNorm::each,
                   .rotary_share = 0.25});
  model.output_gate = true;
  model.recurrence = {.kind = RecurrenceKind::gated_delta,
                      .key_heads = config.dimension("linear_num_key_heads", 16),
                      .value_heads = config.dimension("linear_num_value_heads", 32),
                      .key_dim = config.dimension("linear_key_head_dim", 128),
                      .value_dim = config.dimension("linear_value_head_dim", 128),
                      .convolution = config.dimension("linear_conv_kernel_dim", 4)};
  finish_recurrence(config, model, "mamba_ssm_dtype", "linear_num_key_heads");
}

void read_experts(ConfigReader& config, Architecture& model, std::int64_t count, std::int64_t per_token) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_experts", count);
  experts.experts_per_token = config.dimension("num_experts_per_tok", per_token);
  experts.intermediate_size = config.dimension("moe_intermediate_size", 512);
  experts.shared_experts = 1;
  experts.shared_intermediate_size = config.dimension("shared_expert_intermediate_size", 512);
  experts.shared_gate = true;
  experts.normalize_weights = config.flag("norm_topk_prob", true);
  check_experts_per_token(config, model, "num_experts");
}

}  // namespace

// Norms of layers with attention are behind attention and MLP, as many as the others have before theirs.
void read_olmo_hybrid(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.biases = attention_biases});
  const std::int64_t key_heads = config.dimension("linear_num_key_heads", model.heads);
  const std::int64_t key_dim =
      config.dimension("linear_key_head_dim", std::max<std::int64_t>(1, 3 * model.hidden_size / (4 * key_heads)));
  model.recurrence = {.kind = RecurrenceKind::gated_delta,
                      .key_heads = key_heads,
                      .value_heads = config.dimension("linear_num_value_heads", model.heads),
                      .key_dim = key_dim,
                      .value_dim = config.dimension("linear_value_head_dim", 2 * key_dim),
                      .convolution = config.dimension("linear_conv_kernel_dim", 4)};
  finish_recurrence(config, model, "mamba_ssm_dtype", "linear_num_key_heads");
  read_mixers(config, model, 4);
  const auto attending = static_cast<double>(std::ranges::count(model.pattern, Mixer::attention, &LayerKind::mixer));
  omit_wide_norms(model);
  model.omitted.parameters *= attending / static_cast<double>(model.layers);
}

void read_qwen3_next(ConfigReader& config, Architecture& model) {
  read_hybrid(config, model, 2, false);
  read_experts(config, model, 512, 10);
  model.experts.layer_frequency = config.dimension("decoder_sparse_step", 1);
  model.experts.layer_offset = model.experts.layer_frequency - 1;
  model.experts.dense_layers = config.counts("mlp_only_layers");
  read_prediction(config, model);
  read_mixers(config, model, config.dimension("full_attention_interval", 4));
}

void read_qwen3_5(ConfigReader& config, Architecture& model) {
  read_hybrid(config, model, 4, true);
  read_prediction(config, model, 0, "mtp_num_hidden_layers");
  read_mixers(config, model, config.dimension("full_attention_interval", 4));
}

void read_qwen3_5_moe(ConfigReader& config, Architecture& model) {
  read_hybrid(config, model, 2, false);
  read_experts(config, model, 256, 8);
  read_prediction(config, model, 0, "mtp_num_hidden_layers");
  read_mixers(config, model, config.dimension("full_attention_interval", 4));
}

}  // namespace plumbline::model
