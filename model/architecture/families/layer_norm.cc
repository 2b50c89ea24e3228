// Decoders with LayerNorm in place of RMSNorm: Nemotron-4 (arXiv 2402.16819), Phi-3.5-MoE (arXiv 2404.14219), Command
// (arXiv 2504.00698), Stable LM 2 (arXiv 2402.17834) and StarCoder2 (arXiv 2402.19173). Keys and their values where
// missing: huggingface/transformers
// @008e574 src/transformers/models/cohere, cohere2 and starcoder2, @05cd1ec nemotron and stablelm, @040e1a7 phimoe,
// configuration_*.py; norms: modeling_*.py there.
#include <string_view>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

void use_layer_norm(ConfigReader& config, Architecture& model, std::string_view epsilon_key, bool bias) {
  model.norm = NormKind::layer;
  model.norm_bias = bias;
  model.norm_epsilon = config.number(epsilon_key, 1e-5);
}

void share_norm(Architecture& model) { model.parallel_residual = model.shared_norm = true; }

// Norms of single heads have a weight for each column of each head, and subtract the mean.
void normalize_heads(Architecture& model) {
  omit_wide_norms(model, "norms of queries and keys that subtract the mean, with weights of each head");
}

void read_command(ConfigReader& config, Architecture& model, double rope_theta) {
  read_llama_like(config, model, {.rope_theta = rope_theta, .tied_embedding = true});
  use_layer_norm(config, model, "layer_norm_eps", false);
  share_norm(model);
  read_attention_bias(config, model);
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

void read_nemotron(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.other_gate = true});
  use_layer_norm(config, model, "norm_eps", true);
  read_ungated_mlp(config, model, "hidden_act", "relu2", "squared ReLU");
  read_rotary_share(config, model, "partial_rotary_factor", 0.5);
  read_attention_bias(config, model);
  model.biases.mlp = config.flag("mlp_bias", false);
}

// Each of a token's two experts has the weight that it has among the experts near it.
void read_phimoe(ConfigReader& config, Architecture& model) {
  read_mixtral(config, model);
  model.experts.routed_experts = config.dimension("num_local_experts", 16);
  use_layer_norm(config, model, "rms_norm_eps", true);
  read_attention_bias(config, model);
  model.omitted.what = {"sparse mixing of two experts (its router costs what a softmax does)"};
  if (!config.flag("lm_head_bias", false)) return;
  model.omitted.what.emplace_back("the bias of the output");
  model.omitted.parameters = static_cast<double>(model.vocabulary);
}

void read_starcoder2(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 2, .tied_embedding = true, .other_gate = true});
  use_layer_norm(config, model, "norm_epsilon", true);
  model.mlp = MlpKind::gelu;
  require_gelu(config, "hidden_act", "gelu_pytorch_tanh");
  const bool biased = config.flag("use_bias", true);
  model.biases = {.query_key_value = biased, .attention_output = biased, .mlp = biased};
  model.dropout.embedding = config.probability("embedding_dropout", 0);
  model.dropout.residual = config.probability("residual_dropout", 0);
  model.window.tokens = window_tokens(config, 0);
}

void read_stablelm(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 32});
  use_layer_norm(config, model, "layer_norm_eps", true);
  if (config.flag("use_parallel_residual", false)) share_norm(model);
  model.biases.query_key_value = config.flag("use_qkv_bias", false);
  read_rotary_share(config, model, "partial_rotary_factor", 0.25);
  if (config.probability("hidden_dropout", 0) > 0)
    config.fail("hidden_dropout", "no operator drops what the MLP alone adds to the stream", "use 0");
  if (config.flag("qk_layernorm", false)) normalize_heads(model);
}

}  // namespace plumbline::model
