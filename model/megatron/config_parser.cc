#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "model/megatron/config.h"

namespace plumbline::model::megatron {
namespace {

using Json = nlohmann::json;

// Keys by name with defaults; missing dimensions and values of another type are remembered.
class Keys {
 public:
  explicit Keys(Json json) : json_(std::move(json)) {}

  template <class T>
  T get(const char* key, T missing) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return missing;
    if constexpr (std::is_same_v<T, bool>) {
      if (found->is_boolean()) return found->get<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (found->is_string()) return found->get<std::string>();
    } else {
      // Integers small enough that products of two stay inside 64 bits.
      const bool whole = found->is_number_integer() || !std::is_same_v<T, std::int64_t>;
      if (found->is_number() && whole && std::abs(found->get<double>()) <= 1e9) return found->get<T>();
    }
    wrong_ = key;
    return missing;
  }
  std::int64_t need(const char* key) {
    const std::int64_t value = get<std::int64_t>(key, 0);
    if (value < 1 && wrong_.empty()) wrong_ = key;
    return value;
  }
  bool is_null(const char* key) const { return json_.contains(key) && json_[key].is_null(); }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const std::string& wrong() const { return wrong_; }

 private:
  Json json_;
  std::string wrong_;
};

void read_common(Keys& keys, ModelShape& shape) {
  shape.layers = keys.need("num_hidden_layers");
  shape.hidden_size = keys.need("hidden_size");
  shape.heads = keys.need("num_attention_heads");
  shape.query_groups = keys.get<std::int64_t>("num_key_value_heads", shape.heads);
  shape.grouped_query = shape.query_groups != shape.heads;
  if (!shape.grouped_query) shape.query_groups = 1;
  shape.ffn_hidden_size = keys.need("intermediate_size");
  shape.vocabulary = keys.need("vocab_size");
  shape.max_positions = keys.get<std::int64_t>("max_position_embeddings", 0);
  shape.norm_epsilon = keys.get<double>("rms_norm_eps", 1e-6);
  shape.rotary_base = static_cast<std::int64_t>(keys.get<double>("rope_theta", 10000));
  shape.untied = !keys.get<bool>("tie_word_embeddings", false);
  shape.position = "rope";
  shape.normalization = "RMSNorm";
  shape.gated = true;
  shape.no_linear_bias = !keys.get<bool>("attention_bias", false);
  if (keys.has("head_dim")) shape.kv_channels = keys.need("head_dim");
}

void read_deepseek(Keys& keys, ModelShape& shape, bool third) {
  read_common(keys, shape);
  shape.latent = true;
  shape.grouped_query = false;
  shape.query_groups = 1;
  shape.no_linear_bias = true;
  if (!keys.is_null("q_lora_rank")) shape.q_lora_rank = keys.get<std::int64_t>("q_lora_rank", 1536);
  shape.kv_lora_rank = keys.need("kv_lora_rank");
  shape.qk_head_dim = keys.need("qk_nope_head_dim");
  shape.qk_position_dim = keys.need("qk_rope_head_dim");
  shape.v_head_dim = keys.need("v_head_dim");
  shape.qk_norm = true;  // Megatron's switch for the norms behind the compressions
  shape.experts = keys.need("n_routed_experts");
  shape.experts_per_token = keys.need("num_experts_per_tok");
  shape.expert_ffn = keys.need("moe_intermediate_size");
  const std::int64_t shared = keys.get<std::int64_t>("n_shared_experts", third ? 1 : 2);
  if (shared > 0) shape.shared_expert_ffn = shared * *shape.expert_ffn;
  shape.expert_layers = expert_layers_text({keys.get<std::int64_t>("first_k_dense_replace", third ? 3 : 0),
                                            std::max<std::int64_t>(1, keys.get<std::int64_t>("moe_layer_freq", 1))},
                                           std::min<std::int64_t>(shape.layers, 1'000'000));
  const bool grouped = third || keys.get<std::string>("topk_method", "greedy") != "greedy";
  const std::int64_t groups = keys.get<std::int64_t>("n_group", third ? 8 : 1);
  if (grouped && groups > 1) {
    shape.expert_groups = groups;
    shape.groups_per_token = keys.get<std::int64_t>("topk_group", third ? 4 : 1);
  }
  shape.router_scaling = keys.get<double>("routed_scaling_factor", third ? 2.5 : 1.0);
  shape.router_score = keys.get<std::string>("scoring_func", third ? "sigmoid" : "softmax");
  shape.router_bias = third;
  const std::int64_t prediction = third ? keys.get<std::int64_t>("num_nextn_predict_layers", 1) : 0;
  if (prediction > 0) shape.prediction_layers = prediction;
}

void read_experts(Keys& keys, ModelShape& shape, std::string_view type) {
  read_common(keys, shape);
  const bool mixtral = type == "mixtral";
  shape.experts = keys.need(mixtral ? "num_local_experts" : "num_experts");
  shape.experts_per_token = keys.need("num_experts_per_tok");
  if (!mixtral) shape.expert_ffn = keys.need("moe_intermediate_size");
  shape.expert_layers = std::to_string(keys.get<std::int64_t>("decoder_sparse_step", 1));
  if (type == "qwen2_moe") shape.shared_expert_ffn = keys.need("shared_expert_intermediate_size");
  shape.qkv_bias = type == "qwen2_moe";
  shape.qk_norm = type == "qwen3_moe";
}

void read_dense(Keys& keys, ModelShape& shape, std::string_view type) {
  read_common(keys, shape);
  shape.qkv_bias = type == "qwen2";
  shape.qk_norm = type == "qwen3";
}

void read_gpt_neox(Keys& keys, ModelShape& shape) {
  read_common(keys, shape);
  shape.normalization = "LayerNorm";
  shape.gated = false;
  shape.no_linear_bias = false;
  shape.norm_epsilon = keys.get<double>("layer_norm_eps", 1e-5);
  shape.rotary_base = static_cast<std::int64_t>(keys.get<double>("rotary_emb_base", 10000));
  shape.rotary_percent = keys.get<double>("rotary_pct", 0.25);
}

void read_gpt2(Keys& keys, ModelShape& shape) {
  shape.layers = keys.need("n_layer");
  shape.hidden_size = keys.need("n_embd");
  shape.heads = keys.need("n_head");
  shape.ffn_hidden_size = keys.get<std::int64_t>("n_inner", 4 * shape.hidden_size);
  shape.max_positions = keys.get<std::int64_t>("n_positions", 1024);
  shape.vocabulary = keys.need("vocab_size");
  shape.norm_epsilon = keys.get<double>("layer_norm_epsilon", 1e-5);
  shape.untied = !keys.get<bool>("tie_word_embeddings", true);
}

bool read_type(const std::string& type, Keys& keys, ModelShape& shape) {
  if (type == "deepseek_v3" || type == "deepseek_v2") {
    read_deepseek(keys, shape, type == "deepseek_v3");
  } else if (type == "mixtral" || type == "qwen2_moe" || type == "qwen3_moe") {
    read_experts(keys, shape, type);
  } else if (type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3") {
    read_dense(keys, shape, type);
  } else if (type == "gpt_neox") {
    read_gpt_neox(keys, shape);
  } else if (type == "gpt2") {
    read_gpt2(keys, shape);
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<ModelShape> shape_of(std::string_view json, const std::string& path, const ConfigOverrides& overrides) {
  Json root = Json::parse(json, nullptr, false);
  if (!root.is_object()) return wrong_input_at(path, 0, "", "expected a JSON object", "a config.json of Hugging Face");
  for (const auto& [key, value] : overrides) std::visit([&, &key = key](const auto& item) { root[key] = item; }, value);
  Keys keys(std::move(root));
  ModelShape shape;
  const std::string type = keys.get<std::string>("model_type", "");
  if (!read_type(type, keys, shape)) {
    return wrong_input_at(
        path, 0, "model_type", fmt::format("Megatron's arguments cannot describe a model of type '{}'", type),
        "deepseek_v2, deepseek_v3, gpt2, gpt_neox, llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe");
  }
  if (!keys.wrong().empty()) return wrong_input_at(path, 0, keys.wrong(), "is missing or of another type");
  return shape;
}

}  // namespace plumbline::model::megatron
