// Mixtral (arXiv 2401.04088); of its shape are OLMoE (arXiv 2409.02060), FlexOlmo (arXiv 2507.07024) and Granite 3 with
// experts (huggingface/transformers src/transformers/models, @008e574 olmoe and flex_olmo, @040e1a7 granitemoeshared).
#include <cstdint>

#include "model/architecture/families/families.h"

namespace plumbline::model {
// The text model inside is Mistral's, but that of Mistral Small 4.
void read_mistral3(ConfigReader& config, Architecture& model) {
  find_model_type(config.is_text("text_config.model_type", "mistral4") ? "mistral4" : "mistral")->read(config, model);
}

void read_mixtral(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6});
  model.window.tokens = config.count("sliding_window", 0);
  read_local_experts(config, model, 8, 2);
  read_expert_latent(config, model);
}

// Granite's multipliers are parts of kernels that are there.
void read_granite_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.biases = llama_biases});
  read_local_experts(config, model, 8, 2);
  model.experts.shared_intermediate_size = config.count("shared_intermediate_size", 0);
  model.experts.shared_experts = model.experts.shared_intermediate_size > 0 ? 1 : 0;
}

void read_olmoe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5, .biases = attention_biases, .head_norm = HeadNorm::all});
  read_local_experts(config, model, 64, 8, "num_experts");
  model.experts.normalize_weights = config.flag("norm_topk_prob", false);
}

// OLMo 2's norms behind attention and experts.
void read_flex_olmo(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.rope_theta = 500000, .biases = attention_biases, .head_norm = HeadNorm::all});
  read_local_experts(config, model, 7, 5, "num_experts");
  model.experts.normalize_weights = config.flag("norm_topk_prob", false);
}

}  // namespace plumbline::model
