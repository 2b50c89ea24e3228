// Decoders with LayerNorm in place of RMSNorm of which more differs than keys: Phi-3.5-MoE (arXiv 2404.14219), Command
// (arXiv 2504.00698), Stable LM 2 (arXiv 2402.17834), Falcon (arXiv 2311.16867), BLOOM (arXiv 2211.05100), Phi-1 to 2
// (arXiv 2306.11644), Persimmon, DBRX and OLMo (arXiv 2402.00838). Keys and their values where missing:
// huggingface/transformers src/transformers/models, configuration_*.py @008e574 cohere, cohere2, olmo and phi, @05cd1ec
// stablelm, @040e1a7 phimoe, @5fd8eda falcon, @04efa88 bloom, @038869d persimmon, @032b32a dbrx; norms: modeling_*.py
// there, of Falcon vllm-project/vllm vllm/model_executor/models/falcon.py.
#include <string_view>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

void share_norm(Architecture& model) { model.parallel_residual = model.shared_norm = true; }

// Norms of single heads have a weight for each column of each head, and subtract the mean.
void normalize_heads(Architecture& model) {
  omit_wide_norms(model, "norms of queries and keys that subtract the mean, with weights of each head");
}

// Norms of single heads have one gain and one shift for each column, for all heads.
void shift_heads(Architecture& model) {
  model.query_key_norm = true;
  model.omitted.what.emplace_back("means that norms of queries and keys subtract, and shifts that they add");
  model.omitted.parameters += static_cast<double>(2 * model.head_dim * model.layers);
}

void refuse_mlp_dropout(ConfigReader& config) {
  if (config.probability("hidden_dropout", 0) > 0)
    config.fail("hidden_dropout", "no operator drops what the MLP alone adds to the stream", "use 0");
}

// Returns the first of two names of a key that a file has.
std::string_view stated(ConfigReader& config, std::string_view key, std::string_view other) {
  return config.count(key, 0) > 0 ? key : other;
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
  if (config.flag("lm_head_bias", false)) omit_output_bias(model);
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
  refuse_mlp_dropout(config);
  if (config.flag("qk_layernorm", false)) normalize_heads(model);
}

// At 7B attention has one key and value for all heads and reads what the MLP reads; from 40B on it has groups, and both
// have norms of their own unless the file states one.
void read_falcon(ConfigReader& config, Architecture& model) {
  make_gpt_like(model, config.flag("bias", false));
  model.norm_bias = true;
  read_equal_heads(config, model,
                   {stated(config, "n_layer", "num_hidden_layers"), stated(config, "n_embed", "hidden_size"),
                    stated(config, "n_head", "num_attention_heads")});
  const bool grouped = config.flag("new_decoder_architecture", false);
  const std::string_view shared = stated(config, "n_head_kv", "num_kv_heads");
  const std::int64_t groups = config.dimension(shared, model.heads);
  const bool single = config.flag("multi_query", true);
  model.key_value_heads = grouped ? groups : single ? 1 : model.heads;
  check_shared_heads(config, model, shared);
  constexpr std::int64_t widening = 4;
  model.intermediate_size = config.dimension("ffn_hidden_size", widening * model.hidden_size);
  model.vocabulary = config.dimension("vocab_size");
  model.tied_embedding = config.flag("tie_word_embeddings", true);
  model.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  model.rope_theta = config.number("rope_theta", 10000);
  if (config.flag("alibi", false)) {
    model.positions = PositionKind::alibi;
    model.omitted.what.emplace_back("the scale of ALiBi's biases (they cost the same)");
  }
  model.parallel_residual = config.flag("parallel_attn", true) || grouped;
  const bool own_norms = config.count("num_ln_in_parallel_attn", 2) == 2 && grouped;
  model.shared_norm = model.parallel_residual && !own_norms;
  model.dropout = {.attention = config.probability("attention_dropout", 0),
                   .residual = config.probability("hidden_dropout", 0)};
  read_activation(config, model, "activation", "gelu");
}

void read_bloom(ConfigReader& config, Architecture& model) {
  make_gpt_like(model, true);
  read_equal_heads(config, model,
                   {stated(config, "num_hidden_layers", "n_layer"), stated(config, "n_embed", "hidden_size"),
                    stated(config, "num_attention_heads", "n_head")});
  constexpr std::int64_t widening = 4;
  model.intermediate_size = widening * model.hidden_size;
  model.vocabulary = config.dimension("vocab_size");
  model.positions = PositionKind::alibi;
  model.tied_embedding = config.flag("tie_word_embeddings", true);
  model.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  model.dropout = {.attention = config.probability("attention_dropout", 0),
                   .residual = config.probability("hidden_dropout", 0)};
  model.omitted.what = {"the norm behind the embedding"};
  model.omitted.parameters = static_cast<double>(2 * model.hidden_size);
}

void read_phi(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.norm = NormKind::layer,
                   .norm_bias = true,
                   .epsilon_key = "layer_norm_eps",
                   .norm_epsilon = 1e-5,
                   .activation = "gelu_new",
                   .gated = false,
                   .rotary_share = 0.5});
  share_norm(model);
  model.biases = {.query_key_value = true, .attention_output = true, .mlp = true};
  model.dropout.embedding = config.probability("embd_pdrop", 0);
  model.dropout.residual = config.probability("resid_pdrop", 0);
  if (config.flag("qk_layernorm", false)) shift_heads(model);
  omit_output_bias(model);
}

void read_persimmon(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.norm = NormKind::layer,
                   .norm_bias = true,
                   .epsilon_key = "layer_norm_eps",
                   .norm_epsilon = 1e-5,
                   .rope_theta = 25000,
                   .activation = "relu2",
                   .gated = false,
                   .rotary_share = 0.5});
  model.biases = {.query_key_value = true, .attention_output = true, .mlp = true};
  refuse_mlp_dropout(config);
  if (config.flag("qk_layernorm", true)) shift_heads(model);
}

void read_dbrx(ConfigReader& config, Architecture& model) {
  read_equal_heads(config, model, {"n_layers", "d_model", "n_heads"});
  model.key_value_heads = config.dimension("attn_config.kv_n_heads", 1);
  check_shared_heads(config, model, "attn_config.kv_n_heads");
  model.vocabulary = config.dimension("vocab_size");
  model.norm = NormKind::layer;
  model.norm_epsilon = 1e-5;
  model.rope_theta = config.number("attn_config.rope_theta", 10000);
  model.dropout = {.embedding = config.probability("emb_pdrop", 0),
                   .attention = config.probability("attn_config.attn_pdrop", 0),
                   .residual = config.probability("resid_pdrop", 0)};
  read_activation(config, model, "ffn_config.ffn_act_fn.name", "silu", true);
  MixtureOfExperts& experts = model.experts;
  experts.intermediate_size = config.dimension("ffn_config.ffn_hidden_size", 3584);
  experts.routed_experts = config.dimension("ffn_config.moe_num_experts", 4);
  experts.experts_per_token = config.dimension("ffn_config.moe_top_k", 1);
  const std::string_view norm = "ffn_config.moe_normalize_expert_weights";  // an explicit null means none
  experts.normalize_weights = config.number(norm, 1) > 0 && !config.is_null(norm);
  check_experts_per_token(config, model, "ffn_config.moe_num_experts", "ffn_config.moe_top_k");
  omit_clamp(config, model, "attn_config.clip_qkv");
}

// Its norms have neither gains nor shifts.
void read_olmo(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm = NormKind::layer, .norm_epsilon = 1e-5, .biases = attention_biases});
  model.norm_gains = false;
  omit_clamp(config, model, "clip_qkv");
}

}  // namespace plumbline::model
