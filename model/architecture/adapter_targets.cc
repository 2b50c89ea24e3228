#include "model/architecture/adapter_targets.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "model/base/text.h"

namespace plumbline::model {
namespace {

constexpr std::string_view words_of_attention[] = {"q_",    "k_proj",   "v_proj",      "o_proj", "kv_", "qkv",
                                                   "query", "out_proj", "linear_proj", "attn",   "Wqkv"};
// Those of Megatron Core, which share their words with an MLP.
constexpr std::string_view words_of_latent[] = {"q_down_", "q_up_", "kv_down_", "kv_up_"};
constexpr std::string_view words_of_mlp[] = {"gate", "up_", "down_",  "w1",  "w2",
                                             "w3",   "fc",  "dense_", "mlp", "experts"};

bool has_part(const std::string& module, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&module](std::string_view part) { return contains(module, part); });
}

// The GEMM that chooses experts, named next to theirs: mlp.gate of Qwen, router of others.
bool is_router(const std::string& module) {
  return module == "gate" || module.ends_with(".gate") || module.ends_with("expert_gate") || contains(module, "router");
}

// A pattern for all linear layers of the decoder, in which no part of a layer is named.
bool names_all(std::string_view module) {
  const std::size_t leaf = module.rfind('.') + 1;
  const bool decoder = !contains(module.substr(0, leaf), "vis") && !contains(module.substr(0, leaf), "audio");
  const std::string_view last = module.substr(leaf);
  return decoder && (last == "*" || last == "*proj" || last == "*_proj");
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
    const bool named = has_part(module, words_of_attention) || has_part(module, words_of_mlp),
               all = !named && names_all(module);
    const bool mlp = all || (has_part(module, words_of_mlp) && !has_part(module, words_of_latent));
    targets.attention = targets.attention || all || has_part(module, words_of_attention);
    targets.mlp = targets.mlp || mlp;
    targets.experts = targets.experts || (experts && mlp && !contains(module, "shared_expert"));
  }
  return targets;
}

}  // namespace plumbline::model
