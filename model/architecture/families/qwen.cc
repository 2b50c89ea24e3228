// Qwen (arXiv 2309.16609), Qwen2 (arXiv 2407.10671), Qwen2.5 (arXiv 2412.15115) and Qwen3 (arXiv 2505.09388), dense and
// with experts.
#include <algorithm>
#include <cstdint>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

// The layers that are named so, or those from max_window_layers on, use the window, if the model has one.
void read_window(ConfigReader& config, Architecture& model, std::int64_t missing_tokens = 4096,
                 std::int64_t missing_first = 28) {
  const bool used = config.flag("use_sliding_window", false);
  const std::int64_t tokens = window_tokens(config, missing_tokens);
  const std::int64_t first = config.count("max_window_layers", missing_first);
  if (!used) return;
  model.window = {.tokens = tokens, .first_layer = first};
  read_windows(config, model, 0);
}

void read_experts(ConfigReader& config, Architecture& model) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_experts");
  experts.experts_per_token = config.dimension("num_experts_per_tok");
  experts.intermediate_size = config.dimension("moe_intermediate_size");
  read_expert_latent(config, model);
  experts.normalize_weights = config.flag("norm_topk_prob", false);
  // The n-th, 2n-th, ... layer, counted from one.
  experts.layer_frequency = config.dimension("decoder_sparse_step", 1);
  experts.layer_offset = experts.layer_frequency - 1;
  experts.dense_layers = config.counts("mlp_only_layers");
  check_experts_per_token(config, model, "num_experts");
}

}  // namespace

// Qwen of 2023 (Qwen/Qwen-7B configuration_qwen.py, modeling_qwen.py) states the columns of gate and MLP together.
void read_qwen(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.head_dim = 128,
                   .head_dim_key = "kv_channels",
                   .epsilon_key = "layer_norm_epsilon",
                   .rope_theta_key = "rotary_emb_base",
                   .attention_dropout_key = "attn_dropout_prob"});
  model.intermediate_size = std::max<std::int64_t>(1, model.intermediate_size / 2);
  read_rotary_share(config, model, "rotary_pct", 1);
  const bool biases = !config.flag("no_bias", true);
  model.biases = {.query_key_value = true, .attention_output = biases, .mlp = biases};
  model.dropout.embedding = config.probability("emb_dropout_prob", 0);
}

void read_qwen2(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 32});
  model.biases.query_key_value = true;
  read_window(config, model);
}

// IQuest-Coder (IQuestLab/IQuest-Coder-V1-40B-Instruct configuration_iquestcoder.py): Llama with Qwen2's window, of
// all layers and no tokens where the file is silent.
void read_iquestcoder(ConfigReader& config, Architecture& model) {
  read_llama_like(
      config, model,
      {.key_value_heads = 8, .head_dim = 128, .norm_epsilon = 1e-5, .rope_theta = 500000, .biases = llama_biases});
  read_window(config, model, 0, 0);
}

// MiMo (arXiv 2505.07608).
void read_mimo(ConfigReader& config, Architecture& model) {
  read_qwen2(config, model);
  read_prediction(config, model);
}

void read_qwen2_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 16, .biases = {"qkv_bias", "", "", true}});
  read_experts(config, model);
  read_window(config, model);
  model.experts.shared_experts = 1;
  model.experts.shared_intermediate_size = config.dimension("shared_expert_intermediate_size");
  model.experts.shared_gate = true;
}

void read_qwen3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 32, .head_dim = 128, .biases = attention_biases, .head_norm = HeadNorm::each});
  read_window(config, model);
}

void read_qwen3_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 4, .biases = attention_biases, .head_norm = HeadNorm::each});
  read_experts(config, model);
  read_window(config, model);
}

// Mellum 2 (huggingface/transformers @0eec8c7 src/transformers/models/mellum/configuration_mellum.py): Qwen3's experts,
// with layers that are named for windows and for experts, which all have where no names are.
void read_mellum(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 4,
                   .head_dim = 128,
                   .rope_theta = 500000,
                   .biases = attention_biases,
                   .head_norm = HeadNorm::each});
  read_experts(config, model);
  model.experts.normalize_weights = config.flag("norm_topk_prob", true);
  read_sparse_layers(config, model.experts);
  model.window = {.tokens = window_tokens(config, 1024), .first_layer = model.layers};
  read_windows(config, model, 0);
  model.omitted.what.emplace_back("the base of positions in layers with a window");
}

}  // namespace plumbline::model
