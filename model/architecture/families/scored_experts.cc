// Models with grouped-query attention and DeepSeek's router: GLM-4.5 (arXiv 2508.06471), dots.llm1 (arXiv 2506.05767),
// Ling 2 (arXiv 2510.22115), Hy3, Solar Open, K-EXAONE, Trinity, ERNIE 4.5, MiMo-V2-Flash, Laguna, Step-3, Step 3.5
// (keys that vllm-project/vllm @01b50b9 vllm/model_executor/models/step3p5.py reads). Keys and their values where
// missing: huggingface/transformers @008e574 src/transformers/models/glm4_moe, dots1, hy_v3, solar_open, exaone_moe,
// @053f59e afmoe, @001f85b ernie4_5_moe, @019770d mimo_v2_flash and @08911d5 laguna, configuration_*.py;
// inclusionAI/Ling-1T configuration_bailing_moe_v2.py.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "model/architecture/families/families.h"
#include "model/base/text.h"

namespace plumbline::model {
namespace {

void check_window_heads(ConfigReader& config, const Architecture& model, std::string_view key) {
  const HeadShape shape = model.head_shape(true);
  if (shape.heads % shape.key_value_heads != 0)
    config.conflict(key,
                    fmt::format("{} heads cannot share {} key-value heads evenly", shape.heads, shape.key_value_heads),
                    "it must divide the heads of layers with a window");
}

// Layers with a window have one number of heads, and the others have one.
void read_heads_of_layers(ConfigReader& config, Architecture& model, std::string_view key) {
  const std::vector<std::int64_t> heads = config.counts(key);
  for (std::int64_t layer = 0; layer < std::min<std::int64_t>(model.layers, std::ssize(heads)); ++layer) {
    const bool windowed = model.layer(layer).mixer == Mixer::windowed_attention;
    std::int64_t& common = windowed ? model.window.heads : model.heads;
    const std::int64_t own = heads[static_cast<std::size_t>(layer)];
    if (windowed && common == 0) common = own;
    if (own == 0 || own != common)
      return config.fail(key, "layers of one kind differ", "one number for layers with a window, one for the others");
  }
}

// Returns the layers that a key lists, as numbers or as a text with commas.
std::vector<std::int64_t> listed_layers(ConfigReader& config, std::string_view key) {
  if (config.is_list(key)) return config.counts(key);
  std::vector<std::int64_t> layers;
  const std::string text = config.text(key, "");
  for (const std::string_view part : split_at(text, ',')) {
    if (trimmed(part).empty()) continue;
    const std::optional<std::int64_t> layer = parse_number<std::int64_t>(trimmed(part));
    if (layer && *layer >= 0)
      layers.push_back(*layer);
    else
      config.fail(key, fmt::format("'{}' is no number of a layer", part), "numbers with commas between them");
  }
  return layers;
}

// Without a list all layers but the first have experts; with one, modules of prediction have them where it has the
// number after the last layer (class Step3p5DecoderLayer of vllm-project/vllm @01b50b9
// vllm/model_executor/models/step3p5.py).
void read_expert_layers(ConfigReader& config, Architecture& model, std::string_view key) {
  const std::vector<std::int64_t> listed = listed_layers(config, key);
  model.experts.dense_layers_first = listed.empty() ? 1 : std::ranges::min(listed);
  for (std::int64_t layer = model.experts.dense_layers_first; layer <= model.layers && !listed.empty(); ++layer)
    if (std::ranges::find(listed, layer) == listed.end()) model.experts.dense_layers.push_back(layer);
}

}  // namespace

void read_glm4_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(
      config, model,
      {.key_value_heads = 8, .head_dim = 128, .norm_epsilon = 1e-5, .biases = {"attention_bias"}, .rotary_share = 0.5});
  model.query_key_norm = config.flag("use_qk_norm", false);
  read_routed_experts(config, model, {.dense_layers_first = 1});
  read_prediction(config, model);
}

// The layers from max_window_layers on have the window.
void read_dots1(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 32, .biases = attention_biases, .head_norm = HeadNorm::each});
  model.window = {.tokens = window_tokens(config, 4096), .first_layer = config.count("max_window_layers", 62)};
  read_routed_experts(config, model, {.shared_experts = 0, .normalize_weights = false});
}

// Layers without the window do not rotate queries and keys; attention's result has a gate, and what attention and
// experts add to the stream is normalised.
void read_afmoe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.head_dim = 128, .norm_epsilon = 1e-5, .head_norm = HeadNorm::each, .post_norms = true});
  model.output_gate = true;
  read_routed_experts(config, model,
                      {.shared_experts = 2,
                       .dense_layers_first = 1,
                       .experts_key = "num_experts",
                       .shared_key = "num_shared_experts",
                       .dense_key = "num_dense_layers",
                       .scaling_key = "route_scale"});
  model.window = {.tokens = window_tokens(config, 1024), .rotary_only = true};
  read_windows(config, model, config.dimension("global_attn_every_n_layers", 4));
}

// Layers with the window have twice the keys and values; the hub's file states how many, lists these layers, and what
// each layer has for an MLP. Of MiMo-V2.5 and 2.6, mimo_v2, what sees and hears is not read.
void read_mimo_v2_flash(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 4,
                   .head_dim = 192,
                   .epsilon_key = "layernorm_epsilon",
                   .norm_epsilon = 1e-5,
                   .biases = {"attention_bias"},
                   .rotary_share = 0.334});
  model.value_dim = config.dimension("v_head_dim", 128);
  read_routed_experts(config, model, {.shared_experts = 0, .dense_layers_first = 1});
  model.window = {.tokens = config.dimension("sliding_window", 128),
                  .first_layer = 1,
                  .heads = config.dimension("swa_num_attention_heads", model.heads),
                  .key_value_heads = config.dimension("swa_num_key_value_heads", 2 * model.key_value_heads),
                  .head_dim = config.dimension("swa_head_dim", model.head_dim)};
  read_windows(config, model, 6);
  read_window_list(config, model, "hybrid_layer_pattern");
  if (config.dimension("swa_v_head_dim", model.value_dim) != model.value_dim)
    config.conflict("swa_v_head_dim", "values of another width in layers with a window", "the same as v_head_dim");
  check_window_heads(config, model, "swa_num_key_value_heads");
  model.omitted.what = {"the scale of values", "the base of positions in layers with a window"};
  if (config.layers("num_nextn_predict_layers", 0) > 0)
    model.omitted.what.emplace_back("modules of prediction (windows and MLPs in place of experts)");
  if (!config.flag("add_swa_attention_sink_bias", true)) return;
  model.omitted.what.emplace_back("attention sinks");
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (model.layer(layer).mixer == Mixer::windowed_attention)
      model.omitted.parameters += static_cast<double>(model.window.heads);
}

// Layers with the window have more queries; a list has the number of each layer.
void read_laguna(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 8, .head_dim = 128, .biases = attention_biases, .head_norm = HeadNorm::each});
  model.output_gate = config.is_text("gating", "per-element");
  model.head_gate = !model.output_gate && (config.is_text("gating", "per-head") || config.flag("gating", true));
  read_rotary_share(config, model, "rope_parameters.full_attention.partial_rotary_factor", 0.5);
  read_routed_experts(
      config, model,
      {.dense_layers_first = 1, .experts_key = "num_experts", .scaling_key = "moe_routed_scaling_factor"});
  model.experts.shared_intermediate_size = config.dimension("shared_expert_intermediate_size", 512);
  model.window = {.tokens = config.dimension("sliding_window", 512), .first_layer = model.layers};
  read_windows(config, model, 0);
  const double share = config.number("rope_parameters.sliding_attention.partial_rotary_factor", 1);
  model.window.rotary_dim = static_cast<std::int64_t>(share * static_cast<double>(model.head_dim));
  read_heads_of_layers(config, model, "num_attention_heads_per_layer");
  check_window_heads(config, model, "num_attention_heads_per_layer");
  model.omitted.what = {"softplus as the gate (it costs what a sigmoid does)",
                        "the base of positions in layers with a window"};
}

// Layers with the window have more queries.
void read_step3p5(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = config.dimension("num_attention_groups", 8),
                   .head_dim = 128,
                   .norm_epsilon = 1e-5,
                   .biases = attention_biases,
                   .head_norm = HeadNorm::each});
  model.head_gate = config.flag("use_head_wise_attn_gate", false);
  read_routed_experts(config, model,
                      {.normalize_weights = config.flag("norm_expert_weight", true),
                       .score = config.text("moe_router_activation", "softmax") == "sigmoid" ? "sigmoid" : "softmax",
                       .experts_key = "moe_num_experts",
                       .per_token_key = "moe_top_k",
                       .scaling_key = "moe_router_scaling_factor"});
  model.experts.shared_intermediate_size = config.dimension("share_expert_dim", 1280);
  read_expert_layers(config, model, "moe_layers_enum");
  model.rotary_dim = model.head_dim / 2;  // in each file that is published
  model.window = {
      .tokens = window_tokens(config, 512),
      .first_layer = model.layers,
      .heads = config.dimension("attention_other_setting.num_attention_heads", model.heads),
      .key_value_heads = config.dimension("attention_other_setting.num_attention_groups", model.key_value_heads),
      .rotary_dim = model.head_dim};
  read_windows(config, model, 0);
  check_window_heads(config, model, "attention_other_setting.num_attention_groups");
  read_prediction(config, model);
  model.omitted.what = {"limits of SwiGLU in the last layers", "the base of positions in layers with a window"};
}

// Step-3 (arXiv 2507.19427; keys and their values where missing: vllm-project/vllm @fb6c050
// vllm/transformers_utils/configs/step3_vl.py): queries of a latent, which share one key and one value.
void read_step3(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = config.dimension("num_attention_groups", 1),
                   .head_dim = 256,
                   .norm_epsilon = 1e-5,
                   .rope_theta = 500000});
  if (model.key_value_heads != 1)
    config.conflict("num_attention_groups", "queries of a latent with several keys", "all heads share one: 1");
  model.latent.q_lora_rank = config.dimension("share_q_dim", 2048);
  read_routed_experts(config, model,
                      {.normalize_weights = config.flag("norm_expert_weight", false),
                       .score = "softmax",
                       .experts_key = "moe_num_experts",
                       .per_token_key = "moe_top_k"});
  model.experts.shared_intermediate_size = config.dimension("share_expert_dim", 5120);
  read_expert_layers(config, model, "moe_layers_enum");
}

// Ling 2 and Ring 2 state a router and norms that Ling of the same model_type does not have.
void read_bailing_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.biases = {"use_qkv_bias", "use_bias"}, .rotary_share = 1});
  model.query_key_norm = config.flag("use_qk_norm", false);
  read_routed_experts(config, model,
                      {.shared_experts = 0,
                       .score = config.text("score_function", "softmax") == "sigmoid" ? "sigmoid" : "softmax",
                       .experts_key = "num_experts",
                       .shared_key = "num_shared_experts"});
  model.experts.shared_intermediate_size =
      model.experts.shared_experts * config.count("moe_shared_expert_intermediate_size", 0);
  read_prediction(config, model);
}

// Sarvam 30B and 105B (vllm-project/vllm @055e47c vllm/model_executor/models/sarvam.py; sarvamai/sarvam-30b
// configuration_sarvam_moe.py): Ling 2's layers with V3's scores, and the same experts behind latent attention.
namespace {

void read_sarvam_experts(ConfigReader& config, Architecture& model) {
  read_routed_experts(config, model,
                      {.dense_layers_first = 1,
                       .scaling_factor = 2.5,
                       .score = config.text("score_function", "sigmoid") == "softmax" ? "softmax" : "sigmoid",
                       .experts_key = "num_experts",
                       .shared_key = "num_shared_experts"});
  model.experts.shared_intermediate_size =
      model.experts.shared_experts * config.count("moe_shared_expert_intermediate_size", 0);
}

}  // namespace

void read_sarvam_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model, {.key_value_heads = 4, .head_dim = 256, .biases = {"use_qkv_bias", "use_bias"}});
  model.query_key_norm = config.flag("use_qk_norm", true);
  read_sarvam_experts(config, model);
}

void read_sarvam_mla(ConfigReader& config, Architecture& model) {
  read_decoder(config, model);
  read_latent_attention(config, model, 0);
  read_sarvam_experts(config, model);
}

// Ring-linear 2.0 (arXiv 2510.19338), and Ling 2.5 and 2.6 with latent attention: the last layer of each group has
// attention, the others have lightning attention with as many keys and values as heads (vllm-project/vllm @055e47c
// vllm/model_executor/models/bailing_moe_linear.py and layers/mamba/linear/bailing_linear_attn.py). Ling 3 has Kimi
// Delta Attention in its place, whose gates may be projected whole, and gates of attention (sgl-project/sglang
// python/sglang/srt/models/bailing_moe_linear.py, DsV3MLA, and kimi_linear.py, KimiDeltaAttention).
void read_bailing_linear(ConfigReader& config, Architecture& model) {
  read_bailing_moe(config, model);
  const std::int64_t head_dim = model.head_dim, taps = config.count("short_conv_kernel_size", 0);
  model.recurrence = lightning_attention(model, 256);
  const bool normalized = model.query_key_norm;
  if (config.count("kv_lora_rank", 0) > 0) {
    read_latent_attention(config, model, 0);
    model.head_gate = config.is_text("gated_attention_proj_granularity_type", "head_wise");
    model.output_gate = config.is_text("gated_attention_proj_granularity_type", "element_wise");
    model.query_key_norm = false;
    model.head_dim = model.rotary_dim = 0;
  }
  read_mixers(config, model, config.dimension("layer_group_size", 1));
  if (taps > 0) {
    model.recurrence = {.kind = RecurrenceKind::channel_delta,
                        .key_heads = model.heads,
                        .value_heads = model.heads,
                        .key_dim = head_dim,
                        .value_dim = head_dim,
                        .convolution = taps,
                        .gate_rank = config.flag("no_kda_lora", false) ? 0 : head_dim,
                        .state_bytes = 4};
    model.omitted.what = {"limits of decays, and of SwiGLU in the last layers"};
    return;
  }
  model.omitted.what = {"rotation of lightning attention's queries and keys", "norms by groups of its heads"};
  if (!normalized) return;
  model.omitted.what.emplace_back("norms of its queries and keys");
  for (const LayerKind& kind : model.pattern)
    if (recurs(kind.mixer)) model.omitted.parameters += static_cast<double>(2 * model.recurrence.key_dim);
}

// Every n-th layer, counted from one, has experts, between a first and a last one.
void read_ernie4_5_moe(ConfigReader& config, Architecture& model) {
  read_llama_like(config, model,
                  {.key_value_heads = 4,
                   .norm_epsilon = 1e-5,
                   .rope_theta = 500000,
                   .tied_embedding = true,
                   .biases = {"use_bias", "use_bias", "use_bias"}});
  read_routed_experts(config, model,
                      {.shared_experts = 2,
                       .dense_layers_first = 1,
                       .score = "softmax",
                       .experts_key = "moe_num_experts",
                       .per_token_key = "moe_k",
                       .shared_key = "moe_num_shared_experts",
                       .dense_key = "moe_layer_start_index"});
  MixtureOfExperts& experts = model.experts;
  experts.layer_frequency = config.dimension("moe_layer_interval", 1);
  experts.layer_offset = experts.layer_frequency - 1;
  const double last = config.number("moe_layer_end_index", -1);
  for (std::int64_t layer = 0; layer < model.layers && last >= 0; ++layer)
    if (static_cast<double>(layer) > last) experts.dense_layers.push_back(layer);
  read_prediction(config, model);
}

}  // namespace plumbline::model
