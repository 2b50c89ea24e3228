#include "model/architecture/adapter_targets.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "model/base/text.h"

namespace plumbline::model {
namespace {

constexpr std::string_view attention_parts[] = {"q_",    "k_proj",   "v_proj",      "o_proj", "kv_", "qkv",
                                                "query", "out_proj", "linear_proj", "attn",   "Wqkv"};
// Those of Megatron Core, which share their words with an MLP.
constexpr std::string_view latent_parts[] = {"q_down_", "q_up_", "kv_down_", "kv_up_"};
constexpr std::string_view mlp_parts[] = {"gate", "up_", "down_", "w1", "w2", "w3", "fc", "dense_", "mlp", "experts"};

bool has_part(const std::string& module, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&module](std::string_view part) { return contains(module, part); });
}

// The GEMM that chooses experts, named next to theirs: mlp.gate of Qwen, router of others.
bool is_router(const std::string& module) {
  return module == "gate" || module.ends_with(".gate") || module.ends_with("expert_gate") || contains(module, "router");
}

// A pattern for all linear layers, in which no part of a layer is named.
bool names_all(std::string_view module) {
  const std::string_view leaf = module.substr(module.rfind('.') + 1);
  return leaf == "*" || leaf == "*proj" || leaf == "*_proj";
}

}  // namespace

std::vector<std::string> AdapterTargets::words() const {
  std::vector<std::string> words;
  if (attention) words.emplace_back("attention");
  if (mlp) words.emplace_back("mlp");
  if (experts) words.emplace_back("experts");
  return words;
}

AdapterTargets adapter_targets(std::vector<std::string> modules, bool experts) {
  if (experts) std::erase_if(modules, is_router);
  AdapterTargets targets;
  for (const std::string& module : modules) {
    const bool named = has_part(module, attention_parts) || has_part(module, mlp_parts),
               all = !named && names_all(module);
    const bool mlp = all || (has_part(module, mlp_parts) && !has_part(module, latent_parts));
    targets.attention = targets.attention || all || has_part(module, attention_parts);
    targets.mlp = targets.mlp || mlp;
    targets.experts = targets.experts || (experts && mlp && !contains(module, "shared_expert"));
  }
  return targets;
}

}  // namespace plumbline::model
