// Decoders with LayerNorm in place of RMSNorm of which more differs than keys: Phi-3.5-MoE (arXiv 2404.14219), Command
// (arXiv 2504.00698) and Stable LM 2 (arXiv 2402.17834). Keys and their values where missing: huggingface/transformers
// @008e574 src/transformers/models/cohere and cohere2, @05cd1ec stablelm, @040e1a7 phimoe, configuration_*.py; norms:
// modeling_*.py there.
#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

void share_norm(Architecture& model) { model.parallel_residual = model.shared_norm = true; }

// Norms of single heads have a weight for each column of each head, and subtract the mean.
void normalize_heads(Architecture& model) {
  omit_wide_norms(model, "norms of queries and keys that subtract the mean, with weights of each head");
}

void read_command(ConfigReader& config, Architecture& model, double rope_theta) {
  read_llama_like(config, model,
                  {.norm = NormKind::layer,
                   .epsilon_key = "layer_norm_eps",
                   .norm_epsilon = 1e-5,
                   .rope_theta = rope_theta,
                   .tied_embedding = true,
                   .biases = attention_biases});
  share_norm(model);
}

}  // namespace

void read_cohere(ConfigReader& config, Architecture& model) {
  read_command(config, model, 500000);
  if (config.flag("use_qk_norm", false)) normalize_heads(model);
}

// Layers without the window do not rotate queries and keys, which no norm precedes.
void read_cohere2(ConfigReader& config, Architecture& model) {
  read_command(config, model, 10000);
  model.window = {.tokens = window_tokens(config, 4096), .rotary_only = true};
  read_windows(config, model, config.dimension("sliding_window_pattern", 4));
}

// North Micro Vision (the same @033b1a8 cohere_compass/modular_cohere_compass.py): all layers attend to all tokens
// unless the file names others, and rotate queries and keys where it has positions for them.
void read_cohere_compass(ConfigReader& config, Architecture& model) {
  read_command(config, model, 10000);
  const bool rotates = config.number("rope_parameters.full_attention.rope_theta", 0) > 0;
  model.window = {.tokens = window_tokens(config, 4096), .rotary_only = !rotates};
  read_windows(config, model, 1);
}

// Command A+ (the same @008e574 cohere2_moe/configuration_cohere2_moe.py, @02606a5 modular_cohere2_moe.py): the first
// layers have an MLP of their own width and no window, and are counted apart from those with experts.
void read_cohere2_moe(ConfigReader& config, Architecture& model) {
  read_command(config, model, 10000);
  read_head_dim(config, model, 128);
  if (const double epsilon = config.number("rms_norm_eps", 0); epsilon > 0) {
    model.norm = NormKind::root_mean_square;
    model.norm_epsilon = epsilon;
  }
  const bool sigmoid = config.text("expert_selection_fn", "softmax") == "sigmoid";
  read_routed_experts(config, model,
                      {.shared_experts = 0,
                       .score = sigmoid ? "sigmoid" : "softmax",
                       .experts_key = "num_experts",
                       .shared_key = "num_shared_experts",
                       .width_key = "intermediate_size"});
  // A softmax over the selected experts' logits equals a softmax over all, normalised among the selected ones.
  if (!sigmoid) model.experts.normalize_weights = true;
  model.intermediate_size = config.dimension("prefix_dense_intermediate_size", model.intermediate_size);
  const std::int64_t first = model.experts.dense_layers_first, every = config.dimension("sliding_window_pattern", 4);
  model.window = {
      .tokens = window_tokens(config, 4096), .first_layer = first, .full_offset = first % every, .rotary_only = true};
  read_windows(config, model, every);
  if (config.dimension("prefix_dense_sliding_window_pattern", 1) != 1)
    config.fail("prefix_dense_sliding_window_pattern", "first layers with windows", "1: none of them has one");
  if (first > 0) model.omitted.what.emplace_back("the rotation of queries and keys in the first layers");
}

// Each of a token's two experts has the weight that it has among the experts near it.
void read_phimoe(ConfigReader& config, Architecture& model) {
  read_mixtral(config, model);
  model.experts.routed_experts = config.dimension("num_local_experts", 16);
  model.norm = NormKind::layer;
  model.norm_bias = true;
  read_biases(config, model, attention_biases);
  model.omitted.what = {"sparse mixing of two experts (its router costs what a softmax does)"};
  if (!config.flag("lm_head_bias", false)) return;
  model.omitted.what.emplace_back("the bias of the output");
  model.omitted.parameters = static_cast<double>(model.vocabulary);
}

void read_stablelm(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 32,
                   .norm = NormKind::layer,
                   .norm_bias = true,
                   .epsilon_key = "layer_norm_eps",
                   .norm_epsilon = 1e-5,
                   .biases = {"use_qkv_bias"},
                   .rotary_share = 0.25});
  if (config.flag("use_parallel_residual", false)) share_norm(model);
  if (config.probability("hidden_dropout", 0) > 0)
    config.fail("hidden_dropout", "no operator drops what the MLP alone adds to the stream", "use 0");
  if (config.flag("qk_layernorm", false)) normalize_heads(model);
}

}  // namespace plumbline::model
