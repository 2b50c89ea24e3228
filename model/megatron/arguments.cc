#include "model/megatron/arguments.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/decimal.h"
#include "model/base/error.h"
#include "model/base/text.h"

namespace plumbline::model::megatron {
namespace {

using enum Meaning;

constexpr Argument table[] = {
#include "model/megatron/detail/arguments.def"
};

// Names of earlier versions and of forks for arguments of the table.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"--layernorm-epsilon", "--norm-epsilon"},
    {"--model-parallel-size", "--tensor-model-parallel-size"},
    {"--batch-size", "--micro-batch-size"},
    {"--max-length", "--seq-length"},
    {"--tuner-type", "--train-type"},
    {"--use-custom-fsdp", "--use-megatron-fsdp"},
    {"--activations-checkpoint-method", "--recompute-method"},
    {"--activations-checkpoint-num-layers", "--recompute-num-layers"},
    {"--checkpoint-num-layers", "--recompute-num-layers"},
    {"--moe-expert-parallel-size", "--expert-model-parallel-size"},
    {"--use-flash-attn-v2", "--use-flash-attn"},
    {"--cpu-optimizer", "--optimizer-cpu-offload"},
    {"--cuda-graph-modules", "--cuda-graph-scope"},
    {"--multi-head-latent-attention", "--multi-latent-attention"},
    {"--qk-nope-head-dim", "--qk-head-dim"},
    {"--qk-rope-head-dim", "--qk-pos-emb-head-dim"},
    {"--moe-intermediate-size", "--moe-ffn-hidden-size"},
    {"--n-group", "--moe-router-num-groups"},
    {"--topk-group", "--moe-router-group-topk"},
    {"--routed-scaling-factor", "--moe-router-topk-scaling-factor"},
    {"--num-mtp-predictor", "--mtp-num-layers"},
    {"--moe-fb-overlap", "--overlap-moe-expert-parallel-comm"},
    {"--hybrid-override-pattern", "--hybrid-layer-pattern"},
    {"--moe-router-padding-for-quantization", "--moe-router-padding-for-fp8"},
    {"--linear-attention-type", "--experimental-attention-variant"},
    {"--expert-interval", "--moe-layer-freq"},
    {"--topk", "--moe-router-topk"},
    {"--index-n-heads", "--dsa-indexer-n-heads"},
    {"--index-head-dim", "--dsa-indexer-head-dim"},
    {"--index-topk", "--dsa-indexer-topk"},
    {"--indexer-loss-coeff", "--dsa-indexer-loss-coeff"},
    {"--encoder-seq-length", "--seq-length"},
    {"--use-gated-attention", "--attention-output-gate"},
    {"--combined-1f1b", "--overlap-moe-expert-parallel-comm"},
    {"--split-bw", "--delay-wgrad-compute"},
    {"--lora-r", "--lora-rank"},
    {"--geglu", "--swiglu"},
};

}  // namespace

bool decides_step(const Argument& argument) {
  constexpr std::string_view others[] = {"shape.", "model.", "batch.", "cluster.", "run."};
  return !argument.key.empty() &&
         std::ranges::none_of(others, [&](std::string_view other) { return argument.key.starts_with(other); });
}

std::vector<Argument> table_of(std::span<const Argument> rows) {
  std::vector<Argument> all;
  for (const Argument& row : rows)
    for (const std::string_view line : lines_of(row.name))
      for (const std::string_view name : split_at(line, ' '))
        if (!name.empty()) all.push_back({name, row.meaning, row.key, row.note});
  return all;
}

std::span<const Argument> arguments() {
  static const std::vector<Argument> all = table_of(table);
  return all;
}

bool is_priced(std::string_view name, std::span<const std::string> values) {
  if (values.empty()) return false;
  // The layers of hybrid models under their names of 2024 and 2026.
  const std::string& last = values.back();
  constexpr std::string_view specs[] = {"mamba_stack_spec", "hybrid_stack_spec", "get_qwen3_next_spec",
                                        "get_qwen3_5_spec"};
  if (name == "--spec" && std::ranges::find(specs, last) != std::end(specs)) return true;
  if (values.size() != 1) return false;
  const auto number = parse_decimal(last);
  return (name == "--outer-dp-sharding-strategy" && last == "no_shard") ||
         (name == "--context-parallel-algo" && last == "megatron_cp_algo") ||
         (name == "--mlp-type" && last == "standard") ||
         ((name == "--stage" || name == "--loss-type") && (last == "pt" || last.starts_with("sft"))) ||
         (name == "--ds-sequence-parallel-size" && number && number->value() == 1) ||
         (name == "--optimizer-offload-fraction" && number && number->value() == 1) ||
         (name.ends_with("-dropout") && number && number->value() == 0);
}

std::string known_name(std::string_view name) {
  const auto by_table = [](std::string_view one) {
    const auto* other = std::ranges::find(other_names, one, &std::pair<std::string_view, std::string_view>::first);
    return other == std::end(other_names) ? one : other->second;
  };
  const std::string_view named = by_table(name);
  if (find_argument(named) != nullptr || !name.starts_with("--")) return std::string(named);
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  dashed = by_table(dashed);
  return find_argument(dashed) != nullptr ? dashed : std::string(name);
}

const Argument* find_argument(std::string_view name) {
  const auto found = std::ranges::find(arguments(), name, &Argument::name);
  return found == arguments().end() ? nullptr : &*found;
}

std::string nearest_argument(std::string_view name) {
  std::vector<std::string> names;
  for (const Argument& argument : arguments()) names.emplace_back(argument.name);
  return nearest_name(name, names);
}

}  // namespace plumbline::model::megatron
