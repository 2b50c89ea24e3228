// Llama (arXiv 2302.13971, 2307.09288, 2407.21783) and models that use its model_type.
#include <cstdint>
#include <optional>

#include "model/architecture/families/families.h"

namespace plumbline::model {

void read_llama(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model);
  read_attention_bias(config, model);
  model.biases.mlp = config.flag("mlp_bias", false);
}

// Of Llama's shape are Granite (arXiv 2405.04324), InternLM2 (2403.17297), OLMo 2 (2501.00656) and Phi-3 (2404.14219).
// Granite's multipliers of embeddings, residuals and logits are parts of kernels that are there.
void read_granite(ConfigReader& config, Architecture& model) { read_llama(config, model); }

void read_internlm2(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model);
  model.biases.query_key_value = model.biases.attention_output = config.flag("bias", true);
}

// The same with two flags, of which the second is for the MLP, too (internlm/internlm3-8b-instruct
// configuration_internlm3.py).
void read_internlm3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 32});
  model.biases.query_key_value = config.flag("qkv_bias", false);
  model.biases.attention_output = model.biases.mlp = config.flag("bias", false);
}

// Baichuan (arXiv 2309.10305) projects queries, keys and values by one matrix, W_pack, and turns none of them but at
// 7B: its files state no kind of positions, and engines derive them from the hidden size (class BaichuanForCausalLM of
// vllm-project/vllm @002d607 vllm/model_executor/models/baichuan.py), as they do by the vocabulary whether rows of the
// head's matrix are normalised, which engines do as they load it.
void read_baichuan(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model);
  if (model.hidden_size != 4096) model.positions = PositionKind::alibi;
  if (model.vocabulary == 125696)
    model.omitted.what = {"the normalised rows of the output matrix in training (it is read and written once)"};
}

// MiniCPM (arXiv 2404.06395) scales embeddings, residuals and logits as Granite does.
void read_minicpm(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.tied_embedding = true});
  read_attention_bias(config, model);
  for (const char* key : {"num_experts", "sparse_config.topk"})
    if (config.count(key, 0) > 0)
      config.fail(key, "a minicpm with experts or sparse attention", "only dense models with full attention are read");
}

// AFM (huggingface/transformers @008e574 src/transformers/models/arcee/configuration_arcee.py) and Apertus (the same
// folder, apertus/configuration_apertus.py) have an MLP of two matrices.
void read_arcee(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5, .other_gate = true});
  read_ungated_mlp(config, model, "hidden_act", "relu2", "squared ReLU");
  read_attention_bias(config, model);
  model.biases.mlp = config.flag("mlp_bias", false);
}

// Its activation has two parameters in each layer.
void read_apertus(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5, .rope_theta = 12e6, .other_gate = true});
  read_ungated_mlp(config, model, "hidden_act", "xielu", "xIELU");
  model.omitted.parameters = static_cast<double>(2 * model.layers);
  read_attention_bias(config, model);
  model.query_key_norm = true;
}

// SmolLM3 does not rotate queries and keys in each fourth layer (the same folder, smollm3/configuration_smollm3.py).
// The others are those with a window, which is as long as the longest sequence.
void read_smollm3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 4, .rope_theta = 2e6, .tied_embedding = true});
  read_attention_bias(config, model);
  model.biases.mlp = config.flag("mlp_bias", false);
  if (config.flag("use_sliding_window", false))
    config.fail("use_sliding_window", "windows of layers that do not rotate queries and keys", "use false");
  model.window = {.tokens = config.dimension("max_position_embeddings", 32768),
                  .full_every = config.dimension("no_rope_layer_interval", 4),
                  .rotary_only = true};
  read_window_list(config, model, "no_rope_layers");
}

// OLMo 2's norms are behind attention and MLP, as many as others have before them; those of queries and keys span all
// heads.
void read_olmo2(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5});
  read_attention_bias(config, model);
  omit_wide_norms(model, "norms over the queries and keys of all heads at once");
}

// Three of four layers of OLMo 3 have a window (huggingface/transformers @008e574
// src/transformers/models/olmo3/configuration_olmo3.py).
void read_olmo3(ConfigReader& config, Architecture& model) {
  read_olmo2(config, model);
  model.window.tokens = window_tokens(config, 4096);
  read_windows(config, model, 4);
}

// EXAONE 4 has OLMo 2's norms, and layers without the window do not rotate queries and keys (the same folder,
// exaone4/configuration_exaone4.py).
void read_exaone4(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 32, .norm_epsilon = 1e-5});
  model.query_key_norm = true;
  model.window = {.tokens = window_tokens(config, 4096), .rotary_only = !config.is_null("sliding_window")};
  read_windows(config, model, 4);
}

// ERNIE 4.5 without experts (ernie4_5/configuration_ernie4_5.py).
void read_ernie4_5(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 2,
                   .head_dim = config.is_null("head_dim") ? std::nullopt : std::optional<std::int64_t>(128),
                   .norm_epsilon = 1e-5,
                   .rope_theta = 500000,
                   .tied_embedding = true});
  const bool biased = config.flag("use_bias", false);
  model.biases.query_key_value = model.biases.attention_output = model.biases.mlp = biased;
}

// Hunyuan's dense models and, with experts of one width with the shared one, Hunyuan-A13B (hunyuan_v1_dense and
// hunyuan_v1_moe, configuration_*.py and modeling_*.py).
void read_hunyuan_v1(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5});
  read_attention_bias(config, model);
  model.query_key_norm = config.flag("use_qk_norm", true);
}

void read_hunyuan_v1_moe(ConfigReader& config, Architecture& model) {
  read_hunyuan_v1(config, model);
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.common_count("num_experts", 1);
  experts.experts_per_token = config.common_count("moe_topk", 1);
  experts.intermediate_size = model.intermediate_size;
  experts.shared_experts = 1;
  experts.normalize_weights = true;
  check_experts_per_token(config, model, "num_experts", "moe_topk");
}

// EXAONE 3 and 3.5 (LGAI-EXAONE/EXAONE-3.5-32B-Instruct configuration_exaone.py).
void read_exaone(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.norm_epsilon = config.number("layer_norm_epsilon", 1e-5),
                   .other_gate = true,
                   .layers = config.layers("num_layers")});
  require_silu(config, "activation_function");
}

// GLM-4 of 2024 (glm/configuration_glm.py).
void read_glm(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 2, .head_dim = 128, .norm_epsilon = 1.5625e-7});
  model.biases.query_key_value = config.flag("attention_bias", true);
  read_rotary_share(config, model, "partial_rotary_factor", 0.5);
}

// GLM-4 of 2025 (glm4/configuration_glm4.py) has norms after attention and MLP too. A config.json of glm4v has the text
// model inside text_config; vision is not read.
void read_glm4(ConfigReader& config, Architecture& model) {
  config.read_inside("text_config");
  read_glm(config, model);
  model.post_norms = true;
}

// Seed-OSS (huggingface/transformers @008e574 src/transformers/models/seed_oss/configuration_seed_oss.py).
void read_seed_oss(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .head_dim = 128});
  model.biases.query_key_value = config.flag("attention_bias", true);
  model.biases.attention_output = config.flag("attention_out_bias", false);
  model.biases.mlp = config.flag("mlp_bias", false);
  model.dropout.attention = config.probability("attention_dropout", 0.1);
  model.dropout.residual = config.probability("residual_dropout", 0.1);
}

void read_phi3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5});
  read_rotary_share(config, model, "partial_rotary_factor", 1);
  model.window.tokens = config.count("sliding_window", 0);
}

}  // namespace plumbline::model
