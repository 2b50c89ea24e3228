// The models of torchtitan by name and flavor; those that are not shipped with the dimensions of their registries
// (torchtitan/models/*/__init__.py).
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

// Dense models of grouped queries that are not shipped.
struct DenseFlavor {
  std::string_view model, flavor, type;
  std::int64_t layers, hidden, heads, key_value_heads, head_dim, ffn, vocabulary;
  double rope_theta;
  bool tied;
};
constexpr DenseFlavor dense_flavors[] = {
    {"llama3", "debugmodel", "llama", 6, 256, 16, 16, 16, 768, 2048, 500000, false},
    {"qwen3", "0.6B", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1000000, true},
    {"qwen3", "1.7B", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 1000000, true},
    {"qwen3", "4B", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 1000000, true},
    {"qwen3", "14B", "qwen3", 40, 5120, 40, 8, 128, 17408, 151936, 1000000, false},
};

// Latent attention and experts of deepseek_v3. torchtitan has no prediction modules.
constexpr std::string_view deepseek_671b = R"({
  "model_type": "deepseek_v3",
  "num_hidden_layers": 61,
  "hidden_size": 7168,
  "intermediate_size": 18432,
  "moe_intermediate_size": 2048,
  "num_attention_heads": 128,
  "num_key_value_heads": 128,
  "q_lora_rank": 1536,
  "kv_lora_rank": 512,
  "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "v_head_dim": 128,
  "n_routed_experts": 256,
  "n_shared_experts": 1,
  "num_experts_per_tok": 8,
  "first_k_dense_replace": 3,
  "moe_layer_freq": 1,
  "n_group": 8,
  "topk_group": 4,
  "scoring_func": "sigmoid",
  "norm_topk_prob": true,
  "routed_scaling_factor": 2.5,
  "num_nextn_predict_layers": 0,
  "vocab_size": 129280,
  "tie_word_embeddings": false
}
)";

std::string config_of(const DenseFlavor& flavor) {
  nlohmann::ordered_json json;
  json["model_type"] = flavor.type;
  json["num_hidden_layers"] = flavor.layers;
  json["hidden_size"] = flavor.hidden;
  json["intermediate_size"] = flavor.ffn;
  json["num_attention_heads"] = flavor.heads;
  json["num_key_value_heads"] = flavor.key_value_heads;
  json["head_dim"] = flavor.head_dim;
  json["rms_norm_eps"] = flavor.type == "llama" ? 1e-5 : 1e-6;
  json["rope_theta"] = flavor.rope_theta;
  json["tie_word_embeddings"] = flavor.tied;
  json["vocab_size"] = flavor.vocabulary;
  return json.dump(2) + "\n";
}

// Other attention kernels are flavors of their own: "8B_flex".
std::string_view without_attention(std::string_view flavor) {
  for (const std::string_view end : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"})
    if (flavor.ends_with(end)) return flavor.substr(0, flavor.size() - end.size());
  return flavor;
}

bool same_name(std::string_view a, std::string_view b) { return lower_case(a) == lower_case(b); }

}  // namespace

std::optional<NamedModel> torchtitan_model(std::string_view name, std::string_view flavor) {
  const std::string_view plain = without_attention(flavor);
  if (name == "deepseek_v3" && same_name("671B", plain)) return NamedModel{"", std::string(deepseek_671b), 61};
  for (const ShippedModel& one : shipped_models)
    if (one.titan == name && same_name(one.flavor, plain)) return NamedModel{std::string(one.name), "", one.layers};
  for (const DenseFlavor& one : dense_flavors)
    if (one.model == name && same_name(one.flavor, plain)) return NamedModel{"", config_of(one), one.layers};
  return std::nullopt;
}

// MODEL_FLAVORS of torchtitan/models/llama3/flavors.py @10503c1c, qwen3/flavors.py and deepseek_v3/flavors.py
// @0276e6ed.
std::optional<std::int64_t> torchtitan_context(std::string_view name, std::string_view flavor) {
  const bool small = flavor.starts_with("debugmodel");
  if (name == "llama3") return 131072;
  if (name == "qwen3") return small ? 4096 : 40960;
  if (name == "deepseek_v3") return 16384;
  return std::nullopt;
}

std::optional<std::pair<std::string_view, std::string_view>> titan_flavor(std::string_view shipped) {
  const auto* found = std::ranges::find(shipped_models, shipped, &ShippedModel::name);
  if (found == std::end(shipped_models) || found->titan.empty()) return std::nullopt;
  return std::pair{found->titan, found->flavor};
}

std::string torchtitan_flavors() {
  std::string text, last;
  const auto add = [&](std::string_view model, std::string_view flavor) {
    text += fmt::format("{}{}{}",
                        text.empty()    ? ""
                        : model == last ? ", "
                                        : "; ",
                        model == last ? "" : fmt::format("{} ", model), flavor);
    last = model;
  };
  for (const ShippedModel& one : shipped_models)
    if (!one.titan.empty()) add(one.titan, one.flavor);
  for (const DenseFlavor& one : dense_flavors) add(one.model, one.flavor);
  return text;
}

}  // namespace plumbline::model::configurations
