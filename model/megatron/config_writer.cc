#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/megatron/arguments.h"
#include "model/megatron/detail/fields.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Returns the keys of every model type that follows llama's names.
OrderedJson common(const ModelShape& shape, std::string_view type) {
  OrderedJson json;
  json["model_type"] = type;
  json["num_hidden_layers"] = shape.layers;
  json["hidden_size"] = shape.hidden_size;
  json["num_attention_heads"] = shape.heads;
  json["num_key_value_heads"] = shape.key_value_heads();
  json["intermediate_size"] = shape.ffn();
  json["vocab_size"] = *shape.vocabulary;
  if (shape.max_positions > 0) json["max_position_embeddings"] = shape.max_positions;
  json["rms_norm_eps"] = shape.norm_epsilon;
  json["rope_theta"] = static_cast<double>(shape.rotary_base);
  json["tie_word_embeddings"] = !shape.untied;
  return json;
}

// Heads of a type that does not state their size are a share of the hidden size, but for these two.
void put_head_dim(const ModelShape& shape, OrderedJson& json) {
  if (shape.kv_channels || json["model_type"] == "qwen3" || json["model_type"] == "glm4_moe")
    json["head_dim"] = shape.head_dim();
}

void put_latent(const ModelShape& shape, OrderedJson& json) {
  if (shape.expert_latent.value_or(0) > 0) json["moe_latent_size"] = *shape.expert_latent;
}

void put_indexer(const ModelShape& shape, OrderedJson& json) {
  for (const auto& [key, value] : {std::pair{"index_n_heads", shape.indexer_heads},
                                   {"index_head_dim", shape.indexer_dim},
                                   {"index_topk", shape.indexer_tokens}})
    if (value) json[key] = *value;
}

// Returns of each layer whether the text of an argument names it.
Result<std::vector<bool>> named_layers(std::optional<std::vector<bool>> layers, const std::string& text,
                                       std::string_view argument) {
  if (layers) return std::move(*layers);
  return infeasible("", fmt::format("'{}' does not name layers of this model", text),
                    fmt::format("{} N, or a list with 0 or 1 for each layer", argument));
}

Result<std::vector<bool>> expert_layers_of(const ModelShape& shape) {
  return named_layers(parse_expert_layers(shape.expert_layers, shape.layers), shape.expert_layers, "--moe-layer-freq");
}

bool have_all(const std::vector<bool>& layers) { return std::ranges::find(layers, false) == layers.end(); }

// Sets the window under the keys of the type; a dense llama with one is a mistral.
Result<void> put_window(const ModelShape& shape, OrderedJson& json, std::vector<std::string>& notes) {
  const std::string type = json["model_type"];
  const bool oss = type == "gpt_oss", qwen = type.starts_with("qwen");
  const bool mistral = type == "llama" && !json.contains("attention_bias");
  if (shape.softmax != "vanilla") notes.emplace_back("attention sinks are not priced");
  if (oss) json["sliding_window"] = nullptr;
  const bool of_each = shape.window_layers == (oss ? "2" : "");
  if (!shape.window || (!oss && !qwen && !((mistral || type == "mixtral") && of_each))) return {};
  if (!of_each) {
    const std::string text = shape.window_layers.empty() ? std::to_string(shape.layers + 1) : shape.window_layers;
    const auto windowed = TRY(named_layers(parse_linear_layers(text, shape.layers), text, "--window-attn-skip-freq"));
    for (const bool one : windowed) json["layer_types"].push_back(one ? "sliding_attention" : "full_attention");
  }
  json["sliding_window"] = *shape.window;
  if (mistral) json["model_type"] = "mistral";
  if (qwen) json["use_sliding_window"] = true;
  if (qwen) json["max_window_layers"] = 0;
  return {};
}

Result<WrittenConfig> finish(const OrderedJson& json, std::vector<std::string> notes) {
  return WrittenConfig{json.dump(2) + "\n", json["model_type"].get<std::string>(), std::move(notes)};
}

// Whether experts are chosen as DeepSeek-V3 does.
bool has_scored_experts(const ModelShape& shape) {
  return shape.router_score == "sigmoid" || shape.prediction_layers || shape.router_bias;
}

// The layers with experts by DeepSeek's keys: none of the first ones, then every n-th.
struct ExpertRule {
  std::int64_t dense_first = 0, frequency = 1;
};
std::optional<ExpertRule> rule_of(const std::vector<bool>& sparse) {
  const auto first = std::ranges::find(sparse, true);
  if (std::find(first, sparse.end(), false) == sparse.end()) return ExpertRule{first - sparse.begin(), 1};
  if (const auto every = integer(expert_layers_text(sparse))) return ExpertRule{0, *every};
  return std::nullopt;
}

// Sets the experts under DeepSeek's names; `third`: as DeepSeek-V3 has them.
void put_routed(const ModelShape& shape, const ExpertRule& layers, bool third, OrderedJson& json) {
  const std::int64_t expert_ffn = shape.ffn_of_expert();
  json["n_routed_experts"] = *shape.experts;
  json["n_shared_experts"] = shape.shared_expert_ffn.value_or(0) / expert_ffn;
  json["num_experts_per_tok"] = shape.experts_per_token;
  json["moe_intermediate_size"] = expert_ffn;
  put_latent(shape, json);
  json["first_k_dense_replace"] = layers.dense_first;
  json["moe_layer_freq"] = layers.frequency;
  json["n_group"] = shape.expert_groups.value_or(1);
  json["topk_group"] = shape.groups_per_token.value_or(1);
  if (!third) json["topk_method"] = shape.expert_groups ? "group_limited_greedy" : "greedy";
  json["scoring_func"] = shape.router_score;
  json["norm_topk_prob"] = third;
  json["routed_scaling_factor"] = shape.router_scaling.value_or(1.0);
  if (third) json["num_nextn_predict_layers"] = shape.prediction_layers.value_or(0);
}

// GLM-4.5: DeepSeek's experts, and queries without latents.
Result<WrittenConfig> scored_experts(const ModelShape& shape, const ExpertRule& layers) {
  OrderedJson json = common(shape, "glm4_moe");
  put_head_dim(shape, json);
  json["attention_bias"] = shape.qkv_bias;
  json["use_qk_norm"] = shape.qk_norm;
  json["partial_rotary_factor"] = shape.rotary_percent;
  put_routed(shape, layers, true, json);
  return finish(json, {});
}

Result<WrittenConfig> latent_experts(const ModelShape& shape) {
  const auto layers = rule_of(TRY(expert_layers_of(shape)));
  const std::int64_t expert_ffn = shape.ffn_of_expert();
  const std::int64_t shared_ffn = shape.shared_expert_ffn.value_or(0);
  if (expert_ffn < 1) return infeasible("", "an expert needs a hidden size above 0");
  if (!shape.experts) return infeasible("", "latent attention without experts is no known model type");
  if (!layers)
    return infeasible("", fmt::format("layers with experts '{}' follow no simple rule", shape.expert_layers),
                      "dense layers first, or every n-th layer");
  if (shared_ffn % expert_ffn != 0) {
    return infeasible("",
                      fmt::format("shared experts of {} are no multiple of an expert of {}", shared_ffn, expert_ffn));
  }
  const bool sparse = shape.attention_variant == "dsa";
  const bool third = sparse || has_scored_experts(shape);
  OrderedJson json = common(shape, sparse ? "deepseek_v32" : third ? "deepseek_v3" : "deepseek_v2");
  json["num_key_value_heads"] = shape.heads;
  json["q_lora_rank"] = shape.q_lora_rank ? OrderedJson(*shape.q_lora_rank) : OrderedJson();
  json["kv_lora_rank"] = shape.kv_lora_rank;
  json["qk_nope_head_dim"] = shape.qk_head_dim;
  json["qk_rope_head_dim"] = shape.qk_position_dim;
  json["v_head_dim"] = shape.v_head_dim;
  put_routed(shape, *layers, third, json);
  if (sparse) put_indexer(shape, json);
  return finish(json, {});
}

Result<WrittenConfig> gated_experts_of_gpt_oss(const ModelShape& shape) {
  if (!have_all(TRY(expert_layers_of(shape))))
    return infeasible("", "experts with --quick-geglu are known in every layer", "leave out --moe-layer-freq");
  OrderedJson json = common(shape, "gpt_oss");
  json["head_dim"] = shape.head_dim();
  json["intermediate_size"] = shape.ffn_of_expert();
  json["num_local_experts"] = *shape.experts;
  json["num_experts_per_tok"] = shape.experts_per_token;
  json["attention_bias"] = !shape.no_linear_bias || shape.qkv_bias;
  json["swiglu_limit"] = shape.clamp.value_or(0);
  std::vector<std::string> notes;
  if (shape.no_linear_bias) notes.emplace_back("gpt_oss has biases of router and experts, the script has none");
  TRY(put_window(shape, json, notes));
  return finish(json, std::move(notes));
}

Result<WrittenConfig> plain_experts(const ModelShape& shape) {
  const auto sparse = TRY(expert_layers_of(shape));
  const auto rule = rule_of(sparse);
  std::vector<std::string> notes;
  const bool shared = shape.shared_expert_ffn.value_or(0) > 0;
  const std::int64_t expert_ffn = shape.ffn_of_expert();
  if (has_scored_experts(shape) && shape.gated && !shape.window && rule && rule->frequency == 1 && expert_ffn > 0 &&
      shape.shared_expert_ffn.value_or(0) % expert_ffn == 0)
    return scored_experts(shape, *rule);
  const bool mixtral = !shared && !shape.qk_norm && !shape.qkv_bias && have_all(sparse);
  const std::string_view type = mixtral ? "mixtral" : shared ? "qwen2_moe" : "qwen3_moe";
  OrderedJson json = common(shape, type);
  put_head_dim(shape, json);
  json["num_experts_per_tok"] = shape.experts_per_token;
  if (mixtral) {
    json["intermediate_size"] = expert_ffn;
    json["num_local_experts"] = *shape.experts;
  } else {
    json["num_experts"] = *shape.experts;
    json["moe_intermediate_size"] = expert_ffn;
    json["norm_topk_prob"] = true;
    for (std::size_t layer = 0; layer < sparse.size(); ++layer)
      if (!sparse[layer]) json["mlp_only_layers"].push_back(layer);
  }
  put_latent(shape, json);
  if (shared) json["shared_expert_intermediate_size"] = *shape.shared_expert_ffn;
  if (!shape.gated) notes.push_back(fmt::format("experts of {} are gated, those of the script are not", type));
  TRY(put_window(shape, json, notes));
  return finish(json, std::move(notes));
}

Result<WrittenConfig> gated_dense(const ModelShape& shape) {
  const std::string_view type = shape.qk_norm ? "qwen3" : shape.qkv_bias ? "qwen2" : "llama";
  OrderedJson json = common(shape, type);
  put_head_dim(shape, json);
  std::vector<std::string> notes;
  if (!shape.no_linear_bias) {
    json["attention_bias"] = true;
    json["mlp_bias"] = true;
  }
  if (shape.quick_geglu) notes.emplace_back("a quick GEGLU is priced like a SwiGLU");
  TRY(put_window(shape, json, notes));
  return finish(json, std::move(notes));
}

Result<WrittenConfig> plain_dense(const ModelShape& shape) {
  const bool learned = shape.position == "learned_absolute";
  std::vector<std::string> notes;
  if (shape.squared_relu) notes.emplace_back("a squared ReLU is priced like a GELU");
  if (!learned) {
    OrderedJson json = common(shape, "gpt_neox");
    for (const char* key : {"num_key_value_heads", "rms_norm_eps", "rope_theta"}) json.erase(key);
    json["layer_norm_eps"] = shape.norm_epsilon;
    json["rotary_emb_base"] = static_cast<double>(shape.rotary_base);
    json["rotary_pct"] = shape.rotary_percent;
    json["use_parallel_residual"] = false;
    return finish(json, std::move(notes));
  }
  OrderedJson json;
  json["model_type"] = "gpt2";
  json["n_layer"] = shape.layers;
  json["n_embd"] = shape.hidden_size;
  json["n_head"] = shape.heads;
  json["n_inner"] = shape.ffn();
  if (shape.max_positions > 0) json["n_positions"] = shape.max_positions;
  json["vocab_size"] = *shape.vocabulary;
  json["layer_norm_epsilon"] = shape.norm_epsilon;
  json["tie_word_embeddings"] = !shape.untied;
  return finish(json, std::move(notes));
}

// Megatron's Mamba-2 has convolutions of four taps with biases, and chunks of 128 tokens (MambaMixer of
// megatron/core/ssm/mamba_mixer.py @00bebb45).
Result<WrittenConfig> hybrid(const ModelShape& shape) {
  OrderedJson json = common(shape, "nemotron_h");
  json.erase("rope_theta");
  json["head_dim"] = shape.head_dim();
  json["hybrid_override_pattern"] = shape.pattern;
  json["attention_bias"] = !shape.no_linear_bias;
  json["mlp_bias"] = !shape.no_linear_bias;
  json["mamba_num_heads"] = shape.mamba_head_count();
  json["mamba_head_dim"] = shape.mamba_head_dim;
  json["ssm_state_size"] = shape.mamba_state;
  json["n_groups"] = shape.mamba_groups;
  json["conv_kernel"] = 4;
  json["use_conv_bias"] = true;
  json["chunk_size"] = 128;
  if (shape.experts) {
    json["n_routed_experts"] = *shape.experts;
    json["num_experts_per_tok"] = shape.experts_per_token;
    json["moe_intermediate_size"] = shape.ffn_of_expert();
    json["n_shared_experts"] = shape.shared_expert_ffn.value_or(0) > 0 ? 1 : 0;
    if (shape.shared_expert_ffn.value_or(0) > 0) json["moe_shared_expert_intermediate_size"] = *shape.shared_expert_ffn;
    json["n_group"] = shape.expert_groups.value_or(1);
    json["topk_group"] = shape.groups_per_token.value_or(1);
    json["norm_topk_prob"] = true;
    json["routed_scaling_factor"] = shape.router_scaling.value_or(1.0);
    put_latent(shape, json);
  }
  json["num_nextn_predict_layers"] = shape.prediction_layers.value_or(0);
  std::vector<std::string> notes;
  if (!shape.squared_relu) notes.emplace_back("a GELU is priced like a squared ReLU");
  return finish(json, std::move(notes));
}

Result<WrittenConfig> linear_attention(const ModelShape& shape) {
  const auto linear = TRY(named_layers(parse_linear_layers(shape.linear_layers, shape.layers), shape.linear_layers,
                                       "--linear-attention-freq"));
  if (shape.experts && !have_all(TRY(expert_layers_of(shape))))
    return infeasible("", "experts with linear attention are known in every layer", "leave out --moe-layer-freq");
  OrderedJson json = common(shape, shape.experts ? "qwen3_next" : "qwen3_5_text");
  json["head_dim"] = shape.head_dim();
  json["partial_rotary_factor"] = shape.rotary_percent;
  json["attention_bias"] = !shape.no_linear_bias || shape.qkv_bias;
  for (const bool one : linear) json["layer_types"].push_back(one ? "linear_attention" : "full_attention");
  json["linear_conv_kernel_dim"] = shape.linear_convolution;
  json["linear_key_head_dim"] = shape.linear_key_dim;
  json["linear_value_head_dim"] = shape.linear_value_dim;
  json["linear_num_key_heads"] = shape.linear_key_heads;
  json["linear_num_value_heads"] = shape.linear_value_heads;
  json[shape.experts ? "num_nextn_predict_layers" : "mtp_num_hidden_layers"] = shape.prediction_layers.value_or(0);
  std::vector<std::string> notes;
  if (!shape.gated) notes.emplace_back("MLPs are gated in the type, those of the script are not");
  if (!shape.experts) return finish(json, std::move(notes));
  json["num_experts"] = *shape.experts;
  json["num_experts_per_tok"] = shape.experts_per_token;
  json["moe_intermediate_size"] = shape.ffn_of_expert();
  json["norm_topk_prob"] = true;
  if (shape.shared_expert_ffn.value_or(0) < 1)
    return infeasible("", "experts with linear attention are known with a shared one",
                      "--moe-shared-expert-intermediate-size");
  json["shared_expert_intermediate_size"] = *shape.shared_expert_ffn;
  return finish(json, std::move(notes));
}

Result<WrittenConfig> nearest_type(const ModelShape& shape) {
  if (!shape.pattern.empty()) return hybrid(shape);
  if (shape.attention_variant == "gated_delta_net") return linear_attention(shape);
  if (shape.attention_variant == "dsa" && !shape.latent)
    return infeasible("", "sparse attention is known over latents", "--multi-latent-attention");
  if (shape.latent) return latent_experts(shape);
  if (shape.experts) return shape.quick_geglu ? gated_experts_of_gpt_oss(shape) : plain_experts(shape);
  return shape.gated || shape.quick_geglu ? gated_dense(shape) : plain_dense(shape);
}

// Leaves out the sizes of mixers that no layer has.
void settle_mixers(ModelShape& shape) {
  const ModelShape silent;
  if (shape.pattern.empty()) {
    shape.mamba_heads.reset();
    shape.mamba_state = silent.mamba_state;
    shape.mamba_head_dim = silent.mamba_head_dim;
    shape.mamba_groups = silent.mamba_groups;
  } else {
    shape.mamba_heads = shape.mamba_head_count();
  }
  if (const auto linear = parse_linear_layers(shape.linear_layers, shape.layers))
    shape.linear_layers = linear_layers_text(*linear);
  if (shape.attention_variant == "gated_delta_net") return;
  shape.linear_layers.clear();
  shape.linear_convolution = silent.linear_convolution;
  shape.linear_key_dim = silent.linear_key_dim;
  shape.linear_value_dim = silent.linear_value_dim;
  shape.linear_key_heads = silent.linear_key_heads;
  shape.linear_value_heads = silent.linear_value_heads;
}

// Returns the shape with its defaults as values, and without values that mean nothing in it.
ModelShape settled(ModelShape shape) {
  const auto layers = parse_expert_layers(shape.expert_layers, shape.layers);
  if (layers) shape.expert_layers = expert_layers_text(*layers);
  shape.ffn_hidden_size = shape.ffn();
  if (shape.experts) {
    shape.expert_ffn = shape.ffn_of_expert();
    // Without a dense layer nothing has the other size.
    const bool sparse =
        shape.pattern.empty() ? layers && have_all(*layers) : shape.pattern.find('-') == std::string::npos;
    if (sparse) shape.ffn_hidden_size = shape.expert_ffn;
  }
  const auto windowed = parse_linear_layers(shape.window_layers, shape.layers);
  if (windowed && std::ranges::find(*windowed, true) == windowed->end()) shape.window.reset();
  if (!shape.window || (windowed && have_all(*windowed)))
    shape.window_layers.clear();
  else if (windowed)
    shape.window_layers = linear_layers_text(*windowed);
  settle_mixers(shape);
  if (shape.latent) {
    shape.kv_channels.reset();
    shape.grouped_query = false;
  } else if (shape.heads > 0) {
    shape.kv_channels = shape.head_dim();
  }
  shape.query_groups = shape.key_value_heads();
  shape.grouped_query = shape.query_groups != shape.heads;
  if (shape.position != "rope") {
    shape.rotary_base = ModelShape().rotary_base;
    shape.rotary_percent = ModelShape().rotary_percent;
  }
  for (std::optional<std::int64_t>* count : {&shape.shared_expert_ffn, &shape.prediction_layers, &shape.expert_latent})
    if (*count == 0) count->reset();
  if (shape.expert_groups == 1) shape.expert_groups = shape.groups_per_token = std::nullopt;
  if (shape.router_scaling == 1.0) shape.router_scaling.reset();
  return shape;
}

// Notes what differs between the shape and the written model.
void note_differences(const ModelShape& shape, WrittenConfig& written) {
  // Noted in words, or not of the model.
  constexpr std::string_view elsewhere[] = {"shape.gated", "shape.quick_geglu", "shape.softmax", "shape.squared_relu",
                                            "shape.vocabulary_multiple"};
  const auto read = shape_of(written.json, "", {});
  if (!read) return;
  const FieldTexts has = texts_of(settled(*read));
  const ModelShape wanted = settled(shape);
  visit_shape(wanted, [&](std::string_view key, const auto& field) {
    const std::string text = text_of_field(field), &other = has.find(key)->second;
    const bool open = text.empty() || text == "0";
    if (open || text == other || std::ranges::find(elsewhere, key) != std::end(elsewhere)) return;
    const std::string_view argument = std::ranges::find(arguments(), key, &Argument::key)->name;
    const std::string given = text == "true"    ? std::string(argument)
                              : text == "false" ? fmt::format("no {}", argument)
                                                : fmt::format("{} {}", argument, text);
    const std::string_view instead = other.empty() || other == "false" ? "none"
                                     : other == "true"                 ? "it"
                                                                       : std::string_view(other);
    written.notes.push_back(fmt::format("{}: {}, which is priced, has {}", given, written.model_type, instead));
  });
}

}  // namespace

Result<WrittenConfig> config_of(const ModelShape& shape) {
  auto written = TRY(nearest_type(shape));
  note_differences(shape, written);
  return written;
}

}  // namespace plumbline::model::megatron
