// Gemma (arXiv 2403.08295), Gemma 2 (arXiv 2408.00118), the text model of Gemma 3 (arXiv 2503.19786) and that of Gemma
// 4 (huggingface/transformers @008e574 src/transformers/models/gemma4/configuration_gemma4.py and @033b1a8
// modular_gemma4.py).
#include <fmt/format.h>

#include <algorithm>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

// Files of the first Gemma name the gate by one key or another, and engines have the approximation of GELU whichever
// they state (class GemmaMLP of huggingface/transformers src/transformers/models/gemma/modeling_gemma.py).
DecoderDefaults gemma_defaults(std::int64_t key_value_heads, double rope_theta) {
  return {.key_value_heads = key_value_heads,
          .head_dim = 256,
          .rope_theta = rope_theta,
          .tied_embedding = true,
          .activation_key = "hidden_activation",
          .activation = "gelu_pytorch_tanh",
          .biases = attention_biases};
}

void read_windowed(ConfigReader& config, Architecture& model, const DecoderDefaults& missing) {
  read_llama_like(config, model, missing);
  model.post_norms = true;
  model.window.tokens = window_tokens(config, 4096);
  model.omitted.what.emplace_back("the scale of the embedding");
}

}  // namespace

void read_gemma(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, gemma_defaults(16, 10000));
  model.omitted.what.emplace_back("the scale of the embedding");
}

void read_gemma2(ConfigReader& config, Architecture& model) {
  read_windowed(config, model, gemma_defaults(4, 10000));
  read_windows(config, model, 2);
  if (config.number("attn_logit_softcapping", 50) > 0) model.omitted.what.emplace_back("soft-capping of scores");
  if (config.number("final_logit_softcapping", 30) > 0) model.omitted.what.emplace_back("soft-capping of logits");
}

// VaultGemma (arXiv 2510.15001): Gemma 2 with norms before attention and MLP alone.
void read_vaultgemma(ConfigReader& config, Architecture& model) {
  read_gemma2(config, model);
  model.post_norms = false;
}

void read_gemma3(ConfigReader& config, Architecture& model) {
  read_windowed(config, model, gemma_defaults(4, 1e6));
  model.query_key_norm = true;
  read_windows(config, model, config.dimension("sliding_window_pattern", 6));
  model.omitted.what.emplace_back("the base of positions in layers with a window");
}

namespace {

// Layers with experts have the MLP too.
void read_gemma4_experts(ConfigReader& config, Architecture& model) {
  if (!config.flag("enable_moe_block", false)) return;
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_experts");
  experts.experts_per_token = config.dimension("top_k_experts");
  experts.intermediate_size = config.dimension("moe_intermediate_size");
  experts.normalize_weights = experts.with_dense = true;
  check_experts_per_token(config, model, "num_experts", "top_k_experts");
  model.omitted.what.emplace_back("the scale of each expert");
  model.omitted.parameters = static_cast<double>(model.layers * experts.routed_experts);
}

// The smallest models (E2B, E4B) have tables of embeddings for each layer, and last layers that borrow keys and values.
// Of these some have MLPs twice as wide.
void read_gemma4_parts(ConfigReader& config, Architecture& model, std::int64_t missing_layer_input) {
  model.layer_inputs.columns = config.count("hidden_size_per_layer_input", missing_layer_input);
  if (model.layer_inputs.columns > 0)
    model.layer_inputs.vocabulary = config.dimension("vocab_size_per_layer_input", 262144);
  const std::int64_t own = model.layers - config.count("num_kv_shared_layers", 0);
  const bool wide = config.flag("use_double_wide_mlp", false);
  for (std::int64_t layer = std::max<std::int64_t>(own, 0); layer < model.layers; ++layer) {
    bool lent = false;
    for (std::int64_t other = 0; other < own; ++other) lent |= model.layer(other).mixer == model.layer(layer).mixer;
    if (!lent)
      return config.conflict(
          "num_kv_shared_layers",
          fmt::format("no layer before the last {} attends as layer {} does", model.layers - own, layer),
          "fewer layers that attend to the keys and values of another");
  }
  model.borrowed.layers = model.layers - own;
  if (model.borrowed.layers > 0 && wide) model.borrowed.intermediate_size = 2 * model.intermediate_size;
  if (model.experts.routed_experts > 0 && (model.borrowed.layers > 0 || model.layer_inputs.columns > 0))
    config.fail("enable_moe_block", "experts in layers that borrow keys and values, or have inputs of their own",
                "only dense models with these are predicted");
  if (config.is_text("use_bidirectional_attention", "all"))
    config.fail("use_bidirectional_attention", "tokens that see later ones", "only causal models are predicted");
}

// Layers without the window have fewer and wider heads; where keys are values they project no values.
void read_gemma4_layers(ConfigReader& config, Architecture& model, std::int64_t missing_window) {
  read_windowed(config, model, gemma_defaults(4, 1e6));
  model.query_key_norm = model.values.normalized = true;
  model.window = {.tokens = config.dimension("sliding_window", missing_window),
                  .key_value_heads = model.key_value_heads,
                  .head_dim = model.head_dim,
                  .rotary_dim = model.head_dim};
  model.head_dim = config.dimension("global_head_dim", 512);
  model.values.are_keys = config.flag("attention_k_eq_v", false);
  if (model.values.are_keys)
    model.key_value_heads = config.dimension("num_global_key_value_heads", model.key_value_heads);
  if (model.heads % model.key_value_heads != 0)
    config.conflict("num_global_key_value_heads", "heads cannot share these evenly",
                    "it must divide num_attention_heads");
  read_rotary_share(config, model, "rope_parameters.full_attention.partial_rotary_factor", 0.25);
  read_gemma4_experts(config, model);
  read_windows(config, model, 6);
  model.omitted.what.insert(model.omitted.what.end(),
                            {"the base of positions in layers with a window", "the scale of each layer"});
  if (config.number("final_logit_softcapping", 0) > 0) model.omitted.what.emplace_back("soft-capping of logits");
}

}  // namespace

void read_gemma4(ConfigReader& config, Architecture& model) {
  read_gemma4_layers(config, model, 512);
  read_gemma4_parts(config, model, 256);
}

// Gemma 4 12B, which sees and hears without encoders (the same @008e574
// gemma4_unified/configuration_gemma4_unified.py).
void read_gemma4_unified(ConfigReader& config, Architecture& model) {
  read_gemma4_layers(config, model, 1024);
  read_gemma4_parts(config, model, 0);
}

}  // namespace plumbline::model
