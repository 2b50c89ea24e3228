// Mistral 7B (arXiv 2310.06825), Mixtral (arXiv 2401.04088) and Ministral 3 (huggingface/transformers @008e574
// src/transformers/models/ministral3/configuration_ministral3.py); of Mixtral's shape are OLMoE (arXiv 2409.02060),
// FlexOlmo (arXiv 2507.07024) and Granite 3 with experts (the same @008e574 olmoe and flex_olmo, @040e1a7
// granitemoeshared).
#include <cstdint>
#include <string>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

void read_olmo_experts(ConfigReader& config, Architecture& model, std::int64_t count, std::int64_t per_token) {
  read_attention_bias(config, model);
  omit_wide_norms(model, "norms over the queries and keys of all heads at once");
  model.experts.routed_experts = config.dimension("num_experts", count);
  model.experts.experts_per_token = config.dimension("num_experts_per_tok", per_token);
  model.experts.intermediate_size = model.intermediate_size;
  model.experts.normalize_weights = config.flag("norm_topk_prob", false);
  check_experts_per_token(config, model, "num_experts");
}

}  // namespace

// A config.json of model_type mistral3 has the text model inside text_config, Mistral Small 4's too; vision is not
// read.
void read_mistral3(ConfigReader& config, Architecture& model) {
  const std::string inner = config.text("text_config.model_type", "mistral");
  config.read_inside("text_config");
  if (inner == "mistral4") return read_mistral4(config, model);
  read_mistral(config, model);
}

void read_mistral(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8});
  // An explicit null means that there is no window; a missing key means the window of the first version.
  model.window.tokens = window_tokens(config, 4096);
}

void read_ministral3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .head_dim = 128, .norm_epsilon = 1e-5, .rope_theta = 1e6});
  model.window.tokens = config.count("sliding_window", 0);
}

void read_mixtral(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6});
  model.window.tokens = config.count("sliding_window", 0);
  read_local_experts(config, model, 8, 2);
  read_expert_latent(config, model);
}

// Granite's multipliers are parts of kernels that are there.
void read_granite_moe(ConfigReader& config, Architecture& model) {
  read_llama(config, model);
  read_local_experts(config, model, 8, 2);
  model.experts.shared_intermediate_size = config.count("shared_intermediate_size", 0);
  model.experts.shared_experts = model.experts.shared_intermediate_size > 0 ? 1 : 0;
}

void read_olmoe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5});
  read_olmo_experts(config, model, 64, 8);
}

// OLMo 2's norms behind attention and experts.
void read_flex_olmo(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.rope_theta = 500000});
  read_olmo_experts(config, model, 7, 5);
}

}  // namespace plumbline::model
