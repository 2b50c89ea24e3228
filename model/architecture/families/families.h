// Readers of Hugging Face's config.json, one file per family of models. Each reads the keys of its model types as a
// plain list and leaves errors in the ConfigReader. To add a model type, write its reader and add its line here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/architecture/config_reader.h"

namespace plumbline::model {

// Keys that several families share, and their checks.

// Values of missing keys where the families differ.
struct DecoderDefaults {
  std::optional<std::int64_t> key_value_heads;  // none: as many as heads
  double norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  bool tied_embedding = false;
  bool gelu_gate = false;   // the gate of the MLP is GELU, by the key hidden_activation
  bool dense_mlp = true;    // without dense layers their width may be missing
  bool other_gate = false;  // the family checks the gate of its MLP itself
  std::int64_t layers = 0;  // where the file names each one; 0: their number is required
};

// Reads the decoder that Llama, Mistral, Qwen and DeepSeek share, by Llama's keys: RMSNorm, SwiGLU, rotary positions.
void read_decoder(ConfigReader& config, Architecture& model, const DecoderDefaults& missing = {});

// Reads the dimensions of latent attention; without a key for the rank of queries it is `missing_q_rank`.
void read_latent_attention(ConfigReader& config, Architecture& model, std::int64_t missing_q_rank = 1536);

// Reads head_dim; when missing it is `missing` or, without one, an equal share of the hidden size.
void read_head_dim(ConfigReader& config, Architecture& model, std::optional<std::int64_t> missing = std::nullopt);

// Reads the share of a head's columns that are rotated.
void read_rotary_share(ConfigReader& config, Architecture& model, std::string_view key, double missing);

// Reads what each layer mixes tokens with: by the names of layer_types, or attention in each n-th layer, counted from
// one, and a recurrence in the others. What the layer does with each token follows from the experts. A model of fewer
// layers than names has the first ones.
void read_mixers(ConfigReader& config, Architecture& model, std::int64_t attention_every);

// Reads which layers have the window: by the names of layer_types, else all but each n-th, counted from one. Follows
// the experts.
void read_windows(ConfigReader& config, Architecture& model, std::int64_t full_every);

// Reads which layers have the window from a list of zeros and others, if there is one. Follows the experts.
void read_window_list(ConfigReader& config, Architecture& model, std::string_view key);

// Reads the format of the recurrence's state between passes of inference, and checks its heads.
void finish_recurrence(ConfigReader& config, Architecture& model, std::string_view format_key,
                       std::string_view key_heads_key);

// The keys of a family that divides the hidden size equally among heads, each with its own keys and values.
struct SizeKeys {
  std::string_view layers, hidden_size, heads;
};
void read_equal_heads(ConfigReader& config, Architecture& model, const SizeKeys& keys);

// Reject activations that a layer cannot compute.
void require_silu(ConfigReader& config, std::string_view key);
void require_gelu(ConfigReader& config, std::string_view key, std::string_view missing);

// Checks that a token uses at most as many experts as there are.
void check_experts_per_token(ConfigReader& config, const Architecture& model, std::string_view experts_key,
                             std::string_view key = "num_experts_per_tok");

// The values of missing keys, and the names of keys, in which families with DeepSeek's router differ.
struct ExpertDefaults {
  std::int64_t shared_experts = 1;
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  std::int64_t dense_layers_first = 0;
  bool normalize_weights = true;
  double scaling_factor = 1;
  std::string_view score = "sigmoid";
  int group_score_experts = 2;
  bool greedy = false;  // groups are not used unless topk_method names them
  std::string_view experts_key = "n_routed_experts";
  std::string_view per_token_key = "num_experts_per_tok";
  std::string_view shared_key = "n_shared_experts";
  std::string_view dense_key = "first_k_dense_replace";
  std::string_view scaling_key = "routed_scaling_factor";
};

// Reads the experts of DeepSeek-V2 and later, and checks them.
void read_routed_experts(ConfigReader& config, Architecture& model, const ExpertDefaults& missing);

// Reads the columns of what routed experts read and write where they work in a latent, under Nemotron 3's key: Megatron
// has such experts with any attention (--moe-latent-size).
void read_expert_latent(ConfigReader& config, Architecture& model);

// Reads experts as wide as the MLP that they replace, by Mixtral's keys.
void read_local_experts(ConfigReader& config, Architecture& model, std::int64_t count, std::int64_t per_token);

// Makes the MLP one of two matrices; `activation` is the only value of `key` that is read.
void read_ungated_mlp(ConfigReader& config, Architecture& model, std::string_view key, std::string_view activation,
                      std::string_view shown);

// Normalises queries and keys head by head in place of norms with a weight for each column of all heads.
void omit_wide_norms(Architecture& model, std::string what);

// Reads the language model inside a model that sees or hears, by its own type; the encoder is not read.
void read_text_model(ConfigReader& config, Architecture& model);

// Sets what GPT-like models share: LayerNorm before attention and MLP, an MLP of two matrices with GELU.
void make_gpt_like(Architecture& model, bool biases);

void read_deepseek_v2(ConfigReader& config, Architecture& model);  // deepseek.cc
void read_deepseek_vl_v2(ConfigReader& config, Architecture& model);
void read_deepseek_v3(ConfigReader& config, Architecture& model);
void read_kimi_k25(ConfigReader& config, Architecture& model);
void read_deepseek_v32(ConfigReader& config, Architecture& model);
void read_glm_moe_dsa(ConfigReader& config, Architecture& model);
void read_glm4_moe_lite(ConfigReader& config, Architecture& model);
void read_mistral4(ConfigReader& config, Architecture& model);
void read_deepseek_v4(ConfigReader& config, Architecture& model);  // deepseek_v4.cc
void read_bamba(ConfigReader& config, Architecture& model);        // mamba2.cc
void read_falcon_h1(ConfigReader& config, Architecture& model);
void read_gemma2(ConfigReader& config, Architecture& model);  // gemma.cc
void read_gemma3(ConfigReader& config, Architecture& model);
void read_gemma4(ConfigReader& config, Architecture& model);
void read_gpt_oss(ConfigReader& config, Architecture& model);         // gpt_oss.cc
void read_llama4(ConfigReader& config, Architecture& model);          // llama4.cc
void read_granite_hybrid(ConfigReader& config, Architecture& model);  // mamba2.cc
void read_nemotron_h(ConfigReader& config, Architecture& model);
void read_kimi_linear(ConfigReader& config, Architecture& model);  // kimi_linear.cc
void read_minimax(ConfigReader& config, Architecture& model);      // minimax.cc
void read_minimax_m2(ConfigReader& config, Architecture& model);
void read_gpt2(ConfigReader& config, Architecture& model);      // gpt2.cc: GPT-2 and GPT-3
void read_gpt_neox(ConfigReader& config, Architecture& model);  // gpt_neox.cc
void read_granite(ConfigReader& config, Architecture& model);   // llama.cc
void read_apertus(ConfigReader& config, Architecture& model);
void read_arcee(ConfigReader& config, Architecture& model);
void read_ernie4_5(ConfigReader& config, Architecture& model);
void read_exaone4(ConfigReader& config, Architecture& model);
void read_glm4(ConfigReader& config, Architecture& model);
void read_hunyuan_v1(ConfigReader& config, Architecture& model);
void read_hunyuan_v1_moe(ConfigReader& config, Architecture& model);
void read_internlm2(ConfigReader& config, Architecture& model);
void read_internlm3(ConfigReader& config, Architecture& model);
void read_minicpm(ConfigReader& config, Architecture& model);
void read_llama(ConfigReader& config, Architecture& model);
void read_olmo2(ConfigReader& config, Architecture& model);
void read_olmo3(ConfigReader& config, Architecture& model);
void read_seed_oss(ConfigReader& config, Architecture& model);
void read_phi3(ConfigReader& config, Architecture& model);
void read_smollm3(ConfigReader& config, Architecture& model);
void read_cohere(ConfigReader& config, Architecture& model);  // layer_norm.cc
void read_cohere2(ConfigReader& config, Architecture& model);
void read_nemotron(ConfigReader& config, Architecture& model);
void read_phimoe(ConfigReader& config, Architecture& model);
void read_stablelm(ConfigReader& config, Architecture& model);
void read_mistral(ConfigReader& config, Architecture& model);  // mistral.cc
void read_mistral3(ConfigReader& config, Architecture& model);
void read_ministral3(ConfigReader& config, Architecture& model);
void read_mixtral(ConfigReader& config, Architecture& model);
void read_olmoe(ConfigReader& config, Architecture& model);
void read_flex_olmo(ConfigReader& config, Architecture& model);
void read_granite_moe(ConfigReader& config, Architecture& model);
void read_mpt(ConfigReader& config, Architecture& model);    // mpt.cc
void read_qwen2(ConfigReader& config, Architecture& model);  // qwen.cc
void read_qwen2_moe(ConfigReader& config, Architecture& model);
void read_qwen3(ConfigReader& config, Architecture& model);
void read_qwen3_moe(ConfigReader& config, Architecture& model);
void read_qwen3_next(ConfigReader& config, Architecture& model);  // qwen_next.cc
void read_qwen3_5(ConfigReader& config, Architecture& model);
void read_qwen3_5_moe(ConfigReader& config, Architecture& model);
void read_afmoe(ConfigReader& config, Architecture& model);  // scored_experts.cc
void read_bailing_moe(ConfigReader& config, Architecture& model);
void read_dots1(ConfigReader& config, Architecture& model);
void read_ernie4_5_moe(ConfigReader& config, Architecture& model);
void read_exaone_moe(ConfigReader& config, Architecture& model);
void read_glm4_moe(ConfigReader& config, Architecture& model);
void read_hy_v3(ConfigReader& config, Architecture& model);
void read_laguna(ConfigReader& config, Architecture& model);
void read_mimo_v2_flash(ConfigReader& config, Architecture& model);
void read_solar_open(ConfigReader& config, Architecture& model);
void read_step3p5(ConfigReader& config, Architecture& model);

struct ModelType {
  std::string_view name;  // Hugging Face's model_type
  void (*read)(ConfigReader&, Architecture&);
};
inline constexpr std::array model_types = {
    ModelType{"afmoe", read_afmoe},
    ModelType{"apertus", read_apertus},
    ModelType{"arcee", read_arcee},
    ModelType{"bailing_moe", read_bailing_moe},
    ModelType{"bailing_moe_v2", read_bailing_moe},
    ModelType{"bamba", read_bamba},
    ModelType{"cohere", read_cohere},
    ModelType{"cohere2", read_cohere2},
    ModelType{"deepseek_v2", read_deepseek_v2},
    ModelType{"deepseek_v3", read_deepseek_v3},
    ModelType{"deepseek_v32", read_deepseek_v32},
    ModelType{"deepseek_v4", read_deepseek_v4},
    ModelType{"deepseek_vl_v2", read_deepseek_vl_v2},
    ModelType{"dots1", read_dots1},
    ModelType{"ernie4_5", read_ernie4_5},
    ModelType{"ernie4_5_moe", read_ernie4_5_moe},
    ModelType{"exaone4", read_exaone4},
    ModelType{"exaone_moe", read_exaone_moe},
    ModelType{"falcon_h1", read_falcon_h1},
    ModelType{"flex_olmo", read_flex_olmo},
    ModelType{"gemma2", read_gemma2},
    ModelType{"gemma3", read_gemma3},
    ModelType{"gemma3_text", read_gemma3},
    ModelType{"gemma4", read_gemma4},
    ModelType{"gemma4_text", read_gemma4},
    ModelType{"glm4", read_glm4},
    ModelType{"glm4_moe", read_glm4_moe},
    ModelType{"glm4_moe_lite", read_glm4_moe_lite},
    ModelType{"glm4v_moe", read_glm4_moe},
    ModelType{"glm_moe_dsa", read_glm_moe_dsa},
    ModelType{"gpt2", read_gpt2},
    ModelType{"gpt_neox", read_gpt_neox},
    ModelType{"gpt_oss", read_gpt_oss},
    ModelType{"granite", read_granite},
    ModelType{"granitemoe", read_granite_moe},
    ModelType{"granitemoehybrid", read_granite_hybrid},
    ModelType{"granitemoeshared", read_granite_moe},
    ModelType{"hunyuan_v1_dense", read_hunyuan_v1},
    ModelType{"hunyuan_v1_moe", read_hunyuan_v1_moe},
    ModelType{"hy_v3", read_hy_v3},
    ModelType{"internlm2", read_internlm2},
    ModelType{"internlm3", read_internlm3},
    ModelType{"internvl", read_text_model},
    ModelType{"internvl_chat", read_text_model},
    ModelType{"kimi_k2", read_deepseek_v3},
    ModelType{"kimi_k25", read_kimi_k25},
    ModelType{"kimi_k3", read_kimi_linear},
    ModelType{"kimi_linear", read_kimi_linear},
    ModelType{"laguna", read_laguna},
    ModelType{"llama", read_llama},
    ModelType{"llama4", read_llama4},
    ModelType{"llama4_text", read_llama4},
    ModelType{"llava", read_text_model},
    ModelType{"llava_next", read_text_model},
    ModelType{"llava_onevision", read_text_model},
    ModelType{"mimo_v2_flash", read_mimo_v2_flash},
    ModelType{"minicpm", read_minicpm},
    ModelType{"minimax", read_minimax},
    ModelType{"minimax_m1", read_minimax},
    ModelType{"minimax_m2", read_minimax_m2},
    ModelType{"minimax_text_01", read_minimax},
    ModelType{"ministral3", read_ministral3},
    ModelType{"mistral", read_mistral},
    ModelType{"mistral3", read_mistral3},
    ModelType{"mistral4", read_mistral4},
    ModelType{"mixtral", read_mixtral},
    ModelType{"mpt", read_mpt},
    ModelType{"nemotron", read_nemotron},
    ModelType{"nemotron_h", read_nemotron_h},
    ModelType{"olmo2", read_olmo2},
    ModelType{"olmo3", read_olmo3},
    ModelType{"olmoe", read_olmoe},
    ModelType{"phi3", read_phi3},
    ModelType{"phimoe", read_phimoe},
    ModelType{"qwen2", read_qwen2},
    ModelType{"qwen2_5_omni", read_qwen2},
    ModelType{"qwen2_5_vl", read_qwen2},
    ModelType{"qwen2_moe", read_qwen2_moe},
    ModelType{"qwen2_vl", read_qwen2},
    ModelType{"qwen3", read_qwen3},
    ModelType{"qwen3_5", read_qwen3_5},
    ModelType{"qwen3_5_moe", read_qwen3_5_moe},
    ModelType{"qwen3_5_moe_text", read_qwen3_5_moe},
    ModelType{"qwen3_5_text", read_qwen3_5},
    ModelType{"qwen3_moe", read_qwen3_moe},
    ModelType{"qwen3_next", read_qwen3_next},
    ModelType{"qwen3_omni_moe", read_qwen3_moe},
    ModelType{"qwen3_vl", read_qwen3},
    ModelType{"qwen3_vl_moe", read_qwen3_moe},
    ModelType{"seed_oss", read_seed_oss},
    ModelType{"smollm3", read_smollm3},
    ModelType{"solar_open", read_solar_open},
    ModelType{"stablelm", read_stablelm},
    ModelType{"step3p5", read_step3p5},
    ModelType{"step3p7", read_step3p5},
};

// Returns every key that any model type reads.
std::vector<std::string> config_keys();

}  // namespace plumbline::model
