// Decoders of Llama's shape of which more differs than keys and their values where missing.
#include <cstdint>
#include <optional>

#include "model/architecture/families/families.h"

namespace plumbline::model {

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

// MiniCPM (arXiv 2404.06395).
void read_minicpm(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.tied_embedding = true, .biases = attention_biases});
  for (const char* key : {"num_experts", "sparse_config.topk"})
    if (config.count(key, 0) > 0)
      config.fail(key, "a minicpm with experts or sparse attention", "only dense models with full attention are read");
}

// Apertus (arXiv 2509.14233): its activation has two parameters in each layer.
void read_apertus(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.norm_epsilon = 1e-5,
                   .rope_theta = 12e6,
                   .activation = "xielu",
                   .gated = false,
                   .biases = attention_biases,
                   .head_norm = HeadNorm::each});
  model.omitted.parameters = static_cast<double>(2 * model.layers);
}

// SmolLM3 does not rotate queries and keys in each fourth layer. The others are those with a window, which is as long
// as the longest sequence.
void read_smollm3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 4, .rope_theta = 2e6, .tied_embedding = true, .biases = llama_biases});
  if (config.flag("use_sliding_window", false))
    config.fail("use_sliding_window", "windows of layers that do not rotate queries and keys", "use false");
  model.window = {.tokens = config.dimension("max_position_embeddings", 32768),
                  .full_every = config.dimension("no_rope_layer_interval", 4),
                  .rotary_only = true};
  read_window_list(config, model, "no_rope_layers");
}

// ERNIE 4.5 without experts.
void read_ernie4_5(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 2,
                   .head_dim = config.is_null("head_dim") ? std::nullopt : std::optional<std::int64_t>(128),
                   .norm_epsilon = 1e-5,
                   .rope_theta = 500000,
                   .tied_embedding = true,
                   .biases = {"use_bias", "use_bias", "use_bias"}});
}

// Hunyuan's dense models and, with experts of one width with the shared one, Hunyuan-A13B (modeling_*.py).
void read_hunyuan_v1(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.norm_epsilon = 1e-5, .biases = attention_biases});
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

// nanochat (huggingface/transformers @008e574 src/transformers/models/nanochat/configuration_nanochat.py, @a1530d2
// modular_nanochat.py): its norms have no gains.
void read_nanochat(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.activation = "relu2", .gated = false, .biases = attention_biases, .head_norm = HeadNorm::each});
  model.norm_gains = model.query_key_gains = false;
  model.omitted.what.insert(model.omitted.what.end(), {"the norm behind the embedding", "soft-capping of logits"});
}

// The text model of Muse Glimmer (the same @38e862f muse_glimmer/configuration_muse_glimmer.py, @0173fbb
// modular_muse_glimmer.py): each fourth layer, counted from the last, has no window and does not rotate queries and
// keys, whose norms have no gains; a gate of attention's result, and norms of what attention and MLP add.
void read_muse_glimmer(ConfigReader& config, Architecture& model) {
  constexpr std::int64_t every = 4;
  read_llama_like(config, model,
                  {.key_value_heads = 2,
                   .head_dim = 128,
                   .norm_epsilon = 1e-5,
                   .activation_key = "hidden_activation",
                   .biases = attention_biases,
                   .head_norm = HeadNorm::each,
                   .post_norms = true,
                   .window = SlidingWindow{.tokens = 2048, .full_every = every, .rotary_only = true}});
  model.window.full_offset = model.layers % every;
  model.query_key_gains = false;
  model.output_gate = true;
  model.omitted.what.insert(model.omitted.what.end(), {"the norm behind the embedding", "soft-capping of logits"});
}

// HyperCLOVA X SEED.
void read_hyperclovax(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.biases = llama_biases});
  model.post_norms = config.flag("use_post_norm", true);
}

// BitNet b1.58 (arXiv 2504.12285; huggingface/transformers @008f5c8 src/transformers/models/bitnet/
// configuration_bitnet.py, modeling_bitnet.py).
void read_bitnet(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 5,
                   .norm_epsilon = 1e-5,
                   .rope_theta = 500000,
                   .activation = "relu2",
                   .biases = attention_biases});
  model.omitted.what.insert(model.omitted.what.end(),
                            {"norms before the last matrices of attention and MLP",
                             "the rounding of weights to three values and of what they multiply to 8 bits"});
  model.omitted.parameters = static_cast<double>(model.layers * (model.hidden_size + model.intermediate_size));
}

// Emu3 (arXiv 2409.18869; the same @008f5c8 emu3/configuration_emu3.py) drops what layers add as it drops
// probabilities.
void read_emu3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 8,
                   .norm_epsilon = 1e-5,
                   .rope_theta = 1e6,
                   .biases = llama_biases,
                   .attention_dropout = 0.1});
  model.dropout.residual = model.dropout.attention;
}

// ChatGLM 2 and 3, and GLM-4 of 2024 as it was published first (zai-org/glm-4-9b configuration_chatglm.py).
void read_chatglm(ConfigReader& config, Architecture& model) {
  if (config.count("inner_hidden_size", 0) > 0)
    return config.fail("inner_hidden_size", "prompts of ChatGLM-6B see later tokens, and its positions have two parts",
                       "ChatGLM 2 and later are read");
  read_equal_heads(config, model, {"num_layers", "hidden_size", "num_attention_heads"});
  model.head_dim = config.dimension("kv_channels", 128);
  const std::int64_t groups = config.dimension("multi_query_group_num", 1);
  if (config.flag("multi_query_attention", false)) model.key_value_heads = groups;
  check_shared_heads(config, model, "multi_query_group_num");
  model.intermediate_size = config.dimension("ffn_hidden_size", 13696);
  model.vocabulary = config.dimension("padded_vocab_size");
  model.tied_embedding = config.flag("tie_word_embeddings", false);
  if (!config.flag("rmsnorm", true)) {
    model.norm = NormKind::layer;
    model.norm_bias = true;
  }
  model.norm_epsilon = config.number("layernorm_epsilon", 1e-5);
  constexpr double base = 10000;
  model.rope_theta = base * config.number("rope_ratio", 1);
  model.rotary_dim = model.head_dim / 2;
  const bool biases = config.flag("add_bias_linear", false);
  model.biases = {
      .query_key_value = config.flag("add_qkv_bias", false) || biases, .attention_output = biases, .mlp = biases};
  model.dropout = {.attention = config.probability("attention_dropout", 0),
                   .residual = config.probability("hidden_dropout", 0)};
}

// EXAONE 4.5: EXAONE 4, and what sees.
void read_exaone4_5(ConfigReader& config, Architecture& model) { find_model_type("exaone4")->read(config, model); }

// GLM-4 of 2025: as GLM-4 of 2024, with norms after attention and MLP too.
void read_glm4(ConfigReader& config, Architecture& model) {
  find_model_type("glm")->read(config, model);
  model.post_norms = true;
}

}  // namespace plumbline::model
