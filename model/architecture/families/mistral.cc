// Mixtral (arXiv 2401.04088); of its shape are OLMoE (arXiv 2409.02060), FlexOlmo (arXiv 2507.07024) and Granite 3 with
// experts (huggingface/transformers src/transformers/models, @008e574 olmoe and flex_olmo, @040e1a7 granitemoeshared).

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

// Each fourth layer from the first on has no window, and a head of each has a sink.
void read_swash(ConfigReader& config, Architecture& model) {
  model.window = {.tokens = window_tokens(config, 128), .full_offset = 1};
  read_windows(config, model, 4);
  model.omitted.what = {"attention sinks", "the base of positions of each layer"};
  model.omitted.parameters = static_cast<double>(model.layers * model.heads);
}

}  // namespace

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

// Aria (arXiv 2410.05993; the same @008e574 aria/configuration_aria.py and modeling_aria.py, whose MLP is an expert;
// its first file states that one's width next to a width that no layer has).
void read_aria(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.biases = attention_biases});
  read_local_experts(config, model, 8, 2, "moe_num_experts", "moe_topk");
  model.experts.intermediate_size = config.dimension("moe_intermediate_size", model.intermediate_size);
  model.experts.shared_experts = config.count("moe_num_shared_experts", 2);
}

// Granite's multipliers are parts of kernels that are there.
void read_granite_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.biases = llama_biases});
  read_local_experts(config, model, 8, 2);
  model.experts.shared_intermediate_size = config.count("shared_intermediate_size", 0);
  model.experts.shared_experts = model.experts.shared_intermediate_size > 0 ? 1 : 0;
}

// Granite Swash (the same @1b27b6b granite_swa/modular_granite_swa.py, @0d7e95d
// granitemoe_swa/modular_granitemoe_swa.py).
void read_granite_swa(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 4, .norm_epsilon = 1e-5, .tied_embedding = true, .biases = llama_biases});
  read_swash(config, model);
}

void read_granite_moe_swa(ConfigReader& config, Architecture& model) {
  read_granite_moe(config, model);
  read_swash(config, model);
}

void read_olmoe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5, .biases = attention_biases, .head_norm = HeadNorm::all});
  read_local_experts(config, model, 64, 8, "num_experts");
  model.experts.normalize_weights = config.flag("norm_topk_prob", false);
  omit_clamp(config, model, "clip_qkv");
}

// OLMo 2's norms behind attention and experts.
void read_flex_olmo(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.rope_theta = 500000, .biases = attention_biases, .head_norm = HeadNorm::all});
  read_local_experts(config, model, 7, 5, "num_experts");
  model.experts.normalize_weights = config.flag("norm_topk_prob", false);
}

}  // namespace plumbline::model
