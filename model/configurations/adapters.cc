// Adapters: the linear layers that the trainers' modules name.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/base/text.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

// The GEMM that chooses experts, named next to theirs: mlp.gate of Qwen, router of others.
bool is_router(const std::string& module) {
  return module == "gate" || module.ends_with(".gate") || module.ends_with("expert_gate") || contains(module, "router");
}

bool is_of_mlp(const std::string& module) {
  constexpr std::string_view parts[] = {"gate", "up_", "down_", "w1", "w2", "w3", "fc", "dense_", "mlp", "experts"};
  return std::ranges::any_of(parts, [&module](std::string_view part) { return contains(module, part); });
}

}  // namespace

bool refuse_adapter(Draft& draft, std::string_view key, std::string_view method) {
  if (draft.given("training.method")) return false;
  draft.fail(key, fmt::format("{} is not read", method),
             "--set training.method=lora, training.rank=N and training.targets=[...] state adapters, "
             "training.method=full that all weights train");
  return true;
}

AdapterLayers read_adapter_layers(const RuleInput& in, std::string_view key) {
  std::vector<std::string> modules = in.draft.list(key);
  if (in.has_experts()) std::erase_if(modules, is_router);
  std::vector<std::string> routed = modules;
  std::erase_if(routed, [](const std::string& module) { return contains(module, "shared_expert"); });
  const AdapterLayers layers{names_module(modules, {"q_", "k_", "v_", "o_proj", "kv_", "qkv", "query", "out_proj",
                                                    "linear_proj", "attn", "Wqkv"}),
                             std::ranges::any_of(modules, is_of_mlp)};
  std::vector<std::string> targets;
  if (layers.attention) targets.emplace_back("attention");
  if (layers.mlp) targets.emplace_back("mlp");
  if (in.has_experts() && std::ranges::any_of(routed, is_of_mlp)) targets.emplace_back("experts");
  if (targets.empty())
    in.draft.fail(key, "no module of attention or MLP is named", "--set training.targets=[...] states them");
  else
    in.draft.set("training.targets", targets, key);
  return layers;
}

void read_adapters(const RuleInput& in, const AdapterKeys& keys) {
  in.draft.set("training.method", keys.method, keys.rank);
  in.draft.set("training.rank", in.draft.integer(keys.rank).value_or(8), keys.rank);
  const auto modules = in.draft.list(keys.targets);
  const bool all = in.draft.text(keys.targets) == "all-linear" || keys.targets.ends_with("match_all_linear");
  if (modules.empty() || all)
    in.draft.set("training.targets", "all-linear", keys.targets);
  else if (!in.draft.given("training.targets"))
    read_adapter_layers(in, keys.targets);
}

}  // namespace plumbline::model::configurations
