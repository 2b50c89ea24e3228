#include "model/plan/software.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>

#include "model/plan/detail/value_text.h"
#include "model/plan/layout.h"
#include "model/plan/plan_fields.h"

namespace plumbline::model {
namespace {

// Returns whether the key decides anything in the plan.
bool is_at_work(const Plan& plan, std::string_view key) {
  if (key == "schedule.kind") return plan.parallelism.pipeline > 1;
  if (key == "stack.dispatcher") return plan.parallelism.expert > 1;
  return true;
}

// Rules by which the software of a plan refuses a layout that other software runs. A stack lists those of its software,
// with the file that checks them (docs/stacks.md); what every software refuses is in detail/plan_rules.h.
struct Breach {
  std::string key, message, hint;
};
using MayBreach = std::optional<Breach>;

// Returns whether the plan has numbers of layers of its own, not a rule for them.
bool states_layers(const Plan& plan) {
  return !plan.schedule.layers_per_stage.counts.empty() && !plan.schedule.layers_per_stage.found;
}

// What software does with a layout that breaks a rule. It runs one that it warns of, but not as the plan states it: a
// rule for layers that it does not have stands for its next split.
enum class Then : std::uint8_t { refuse, warn, refuse_stated_layers };

struct Rule {
  std::string_view word;
  MayBreach (*breach)(const Plan& plan, const Architecture& architecture, const Layout& layout);
  Then then = Then::refuse;

  bool refuses(const Plan& plan) const { return then == Then::refuse || (then != Then::warn && states_layers(plan)); }
};

// Returns the number of micro-batches where chunks of a rank take turns by groups of them, else 0.
std::int64_t interleaved(const Plan& plan, const Layout& layout) {
  const bool turns = plan.schedule.kind.starts_with("interleaved") && plan.schedule.virtual_stages > 1;
  return turns && plan.parallelism.pipeline > 1 ? layout.micro_batches : 0;
}

// Returns the hint to a global batch whose micro-batches are a multiple of `count`.
std::string batch_hint(const Plan& plan, const Layout& layout, std::int64_t count) {
  const std::int64_t quantum = layout.data * plan.batch.micro_batch_size * count;
  const std::int64_t below = plan.batch.global_batch_size / quantum * quantum;
  const std::string sizes = below > 0 ? fmt::format("{} or {}", below, below + quantum) : fmt::format("{}", quantum);
  return fmt::format("use batch.global_batch_size {}, another parallelism.pipeline or schedule.kind 1f1b", sizes);
}

MayBreach whole_batches(const Plan& plan, const Architecture&, const Layout& layout) {
  const std::int64_t quantum = layout.data * plan.batch.micro_batch_size, batch = plan.batch.global_batch_size;
  if (batch % quantum == 0) return std::nullopt;
  return Breach{"batch.global_batch_size",
                fmt::format("{} sequences are no multiple of micro_batch_size * data = {} * {} = {}", batch,
                            plan.batch.micro_batch_size, layout.data, quantum),
                fmt::format("use {} or {}", batch / quantum * quantum, (batch / quantum + 1) * quantum)};
}

MayBreach interleaved_multiple(const Plan& plan, const Architecture&, const Layout& layout) {
  const std::int64_t count = interleaved(plan, layout), ranks = plan.parallelism.pipeline;
  if (count % ranks == 0) return std::nullopt;
  return Breach{
      "schedule.kind",
      fmt::format("{} micro-batches are no multiple of {} pipeline ranks, as interleaving needs", count, ranks),
      batch_hint(plan, layout, ranks)};
}

MayBreach interleaved_groups(const Plan& plan, const Architecture&, const Layout& layout) {
  const std::int64_t count = interleaved(plan, layout), ranks = plan.parallelism.pipeline;
  if (count == 0 || count >= ranks) return std::nullopt;
  return Breach{
      "schedule.kind",
      fmt::format("{} micro-batches are fewer than {} pipeline ranks, over which interleaving spreads a group "
                  "of them",
                  count, ranks),
      batch_hint(plan, layout, ranks)};
}

MayBreach interleaved_in_wide_groups(const Plan& plan, const Architecture&, const Layout& layout) {
  if (interleaved(plan, layout) % plan.parallelism.pipeline == 0) return std::nullopt;
  return Breach{"schedule.kind",
                fmt::format("{} micro-batches are no multiple of {} pipeline ranks, which is refused without "
                            "--microbatch-group-size-per-virtual-pipeline-stage {}",
                            layout.micro_batches, plan.parallelism.pipeline, layout.schedule.micro_batch_group),
                ""};
}

MayBreach interleaved_rounds(const Plan& plan, const Architecture&, const Layout& layout) {
  const std::int64_t count = interleaved(plan, layout);
  const std::int64_t rounds = std::max<std::int64_t>(1, count / plan.parallelism.pipeline);
  if (count % rounds == 0) return std::nullopt;
  return Breach{"schedule.kind",
                fmt::format("{} micro-batches on {} pipeline ranks do not divide over {} rounds", count,
                            plan.parallelism.pipeline, rounds),
                batch_hint(plan, layout, plan.parallelism.pipeline)};
}

MayBreach expert_overlap(const Plan& plan, const Architecture& architecture, const Layout&) {
  const auto refused = [](std::string key, const std::string& why, std::string hint) {
    return Breach{std::move(key), "overlapping the all-to-all of experts with the pipeline " + why, std::move(hint)};
  };
  constexpr const char* other = "set schedule.kind to interleaved";
  if (plan.schedule.kind != "interleaved-overlap") return std::nullopt;
  if (architecture.experts.routed_experts == 0) return refused("schedule.kind", "needs a model with experts", other);
  if (plan.parallelism.expert == 1)
    return refused("schedule.kind", "needs experts on several ranks (parallelism.expert > 1)", other);
  if (plan.parallelism.pipeline > 1 && plan.schedule.virtual_stages == 1)
    return refused("schedule.virtual_stages", "needs virtual stages where there is a pipeline",
                   "use 2 or more, or set schedule.kind to 1f1b");
  if (plan.stack.dispatcher == "allgather")
    return refused("stack.dispatcher", "needs an all-to-all, and this dispatcher gathers all tokens", "use alltoall");
  if (plan.recompute.policy == "full")
    return refused("recompute.policy", "needs layers that are not computed again as a whole",
                   "use none or selective, or set schedule.kind to interleaved");
  if (plan.precision.gemm == Precision::fp32 || plan.precision.gemm == Precision::tf32)
    return refused("precision.gemm", "needs a model in BF16 or FP16", "use bf16");
  if (architecture.multi_token_prediction_layers > 1)
    return refused("schedule.kind", "needs at most one prediction module", other);
  return std::nullopt;
}

// Returns whether all stages but the first and the last `ends` hold as many layers as the next one.
bool even_stages(const Layout& layout, std::size_t ends) {
  const auto& stages = layout.stage_layers;
  for (std::size_t stage = ends + 1; stage + ends < stages.size(); ++stage)
    if (stages[stage].size() != stages[ends].size()) return false;
  return true;
}

MayBreach uneven_stages(const Layout& layout, std::string_view which) {
  const auto add = [](std::size_t sum, const std::vector<std::int64_t>& layers) { return sum + layers.size(); };
  const auto& stages = layout.stage_layers;
  return Breach{"schedule.layers_per_stage",
                fmt::format("{} layers are not spread evenly over {} stages{}",
                            std::accumulate(stages.begin(), stages.end(), std::size_t{0}, add), stages.size(), which),
                "use stages that divide them, with schedule.layers_per_stage = \"even\""};
}

MayBreach even_layers(const Plan&, const Architecture&, const Layout& layout) {
  return even_stages(layout, 0) ? std::nullopt : uneven_stages(layout, "");
}

MayBreach uneven_ends(const Plan& plan, const Architecture& architecture, const Layout& layout) {
  if (plan.schedule.virtual_stages > 1) return even_layers(plan, architecture, layout);
  return even_stages(layout, 1) ? std::nullopt : uneven_stages(layout, ", but for the first and the last");
}

MayBreach fsdp_alone(const Plan& plan, const Architecture&, const Layout&) {
  const auto& degrees = plan.parallelism;
  if (degrees.zero_stage < 2 || (degrees.pipeline == 1 && degrees.expert == 1)) return std::nullopt;
  return Breach{"parallelism.zero_stage", "FSDP goes with neither a pipeline nor experts on several ranks",
                "use 0 or 1, or set parallelism.pipeline and parallelism.expert to 1"};
}

MayBreach pipeline_with_sharded_gradients(const Plan& plan, const Architecture&, const Layout&) {
  if (plan.parallelism.zero_stage < 2 || plan.parallelism.pipeline == 1) return std::nullopt;
  return Breach{
      "parallelism.zero_stage",
      fmt::format("gradients that are sharded (ZeRO {}) do not go with a pipeline", plan.parallelism.zero_stage),
      "use 0 or 1, or set parallelism.pipeline to 1"};
}

MayBreach fsdp_gradients(const Plan& plan, const Architecture&, const Layout&) {
  if (plan.parallelism.zero_stage != 1 || plan.parallelism.pipeline > 1) return std::nullopt;
  return Breach{"parallelism.zero_stage", "FSDP without a pipeline shards gradients, too: it is ZeRO 2 or 3", ""};
}

constexpr std::string_view attention_alone = "core-attention-alone", by_op = "selective-op";

MayBreach other_than_attention(const Plan& plan, const Architecture&, const Layout&) {
  const auto& recompute = plan.recompute;
  if (recompute.policy != "selective" || recompute.operators == selective_operators(plan)) return std::nullopt;
  return Breach{"recompute.operators", "selective recomputation is that of core_attention alone",
                "use [\"core_attention\"], or recompute.policy none or full"};
}

// Megatron computes gates again with its experts (moe_act), and nothing whose FP8 scale it would have to find again.
MayBreach recompute_modules(const Plan& plan, const Architecture& architecture, const Layout&) {
  const auto& operators = plan.recompute.operators;
  const auto named = [&](std::string_view word) {
    return plan.recompute.policy == "selective" && std::ranges::find(operators, word) != operators.end();
  };
  if (named("swiglu") && architecture.experts.routed_experts == 0)
    return Breach{"recompute.operators", "the gate alone is computed again in experts, which the model does not have",
                  "leave swiglu out, or name mlp"};
  const bool delayed = plan.precision.gemm == Precision::fp8_tensor && plan.precision.scaling == "delayed";
  if (delayed && (named("swiglu") || named("rmsnorm")))
    return Breach{"recompute.operators", "norms and gates are not computed again in FP8 with delayed scaling",
                  "leave rmsnorm and swiglu out, or set precision.scaling to current"};
  return std::nullopt;
}

// Recomputation alone follows from `by_op`.
MayBreach nothing(const Plan&, const Architecture&, const Layout&) { return std::nullopt; }

constexpr std::array known_rules = {
    Rule{"whole-batches", whole_batches},
    Rule{"interleaved-multiple", interleaved_multiple},
    Rule{"interleaved-groups", interleaved_groups},
    Rule{"interleaved-groups", interleaved_in_wide_groups, Then::warn},
    Rule{"interleaved-rounds", interleaved_rounds},
    Rule{"expert-overlap", expert_overlap},
    Rule{attention_alone, other_than_attention},
    Rule{by_op, nothing},
    Rule{"recompute-modules", recompute_modules},
    Rule{"even-layers", even_layers, Then::refuse_stated_layers},
    Rule{"uneven-ends", uneven_ends, Then::refuse_stated_layers},
    Rule{"fsdp-alone", fsdp_alone},
    Rule{"zero-without-pipeline", pipeline_with_sharded_gradients},
    Rule{"fsdp-without-pipeline", pipeline_with_sharded_gradients, Then::warn},
    Rule{"fsdp-gradients", fsdp_gradients, Then::warn},
};

// Calls visit(rule, stack) for the rules of the plan's software.
template <class Visit>
void for_each_rule(const Plan& plan, Visit visit) {
  const auto list = plan.software.find(std::string(rules_key));
  if (list == plan.software.end()) return;
  for (const Rule& rule : known_rules)
    if (std::ranges::find(list->second.values, rule.word) != list->second.values.end()) visit(rule, list->second.stack);
}

}  // namespace

std::string listed_as(std::string_view key) { return std::string(key == "precision.experts" ? "precision.gemm" : key); }

bool software_has(const Plan& plan, const std::string& key, std::string_view value) {
  const auto list = plan.software.find(key);
  return list == plan.software.end() || std::ranges::find(list->second.values, value) != list->second.values.end();
}

bool dispatch_takes_sms(const Plan& plan) {
  return plan.stack.dispatcher != "alltoall" && plan.stack.dispatcher != "allgather";
}

std::vector<std::string> dispatcher_warnings(const Plan& plan) {
  if (plan.parallelism.expert == 1 || plan.overlap.communication_sms == 0 || dispatch_takes_sms(plan)) return {};
  return {fmt::format(
      "dispatcher {} takes no overlap.communication_sms: NCCL's kernels run on whatever SMs are free, so that the {} "
      "SMs are those of another dispatcher",
      plan.stack.dispatcher, plan.overlap.communication_sms)};
}

std::vector<std::string> software_warnings(const Plan& plan) {
  std::vector<std::string> warnings;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    const auto list = plan.software.find(listed_as(key));
    if (list == plan.software.end() || !is_at_work(plan, key)) return;
    const std::string word = word_of(field);
    if (word.empty() || software_has(plan, list->first, word)) return;
    warnings.push_back(fmt::format("stack {} has no {} {}: it has {}", list->second.stack, key, word,
                                   fmt::join(list->second.values, ", ")));
  });
  return warnings;
}

std::vector<std::string> software_replacements(const Plan& plan) {
  std::vector<std::string> sentences;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    const auto place = plan.places.find(key);
    if (place == plan.places.end() || place->second.given.empty()) return;
    sentences.push_back(fmt::format("{} runs {} {} as {} on this GPU", place->second.implied_by, key,
                                    place->second.given, word_of(field)));
  });
  return sentences;
}

std::optional<Precision> attention_format(const Plan& plan) {
  if (plan.precision.attention == "bf16") return std::nullopt;
  return plan.precision.attention == "mxfp8" ? Precision::mxfp8 : Precision::fp8_tensor;
}

bool fuses_experts(const Plan& plan) {
  const Precision experts = plan.precision.experts.value_or(plan.precision.gemm);
  return (experts == Precision::mxfp8 || experts == Precision::nvfp4) &&
         std::ranges::find(plan.stack.fused, "experts") != plan.stack.fused.end();
}

std::vector<std::string> software_rules() {
  std::vector<std::string> words;
  for (const Rule& rule : known_rules)
    if (words.empty() || words.back() != rule.word) words.emplace_back(rule.word);
  return words;
}

std::vector<std::string> selective_operators(const Plan& plan) {
  std::vector<std::string> operators;
  for_each_rule(plan, [&](const Rule& rule, const std::string&) {
    if (rule.word == attention_alone) operators = {"core_attention"};
    if (rule.word == by_op) operators = {"mlp", "swiglu", "rmsnorm"};
  });
  return operators;
}

std::optional<Error> check_software(const Plan& plan, const Architecture& architecture, const Layout& layout) {
  std::optional<Error> error;
  for_each_rule(plan, [&](const Rule& rule, const std::string& stack) {
    if (error || !rule.refuses(plan)) return;
    if (auto breach = rule.breach(plan, architecture, layout))
      error = plan_error(plan, ErrorKind::infeasible, std::move(breach->key),
                         fmt::format("stack {} refuses it ({}): {}", stack, rule.word, breach->message),
                         std::move(breach->hint));
  });
  return error;
}

bool recomputes(const Plan& plan, const Architecture& architecture) {
  if (plan.recompute.policy == "selective" && plan.recompute.operators.empty()) return false;
  bool refused = false;
  for_each_rule(plan, [&](const Rule& rule, const std::string&) {
    const bool of_operators = rule.breach == other_than_attention || rule.breach == recompute_modules;
    refused = refused || (of_operators && rule.breach(plan, architecture, {}));
  });
  return !refused;
}

std::vector<std::string> software_layout_warnings(const Plan& plan, const Layout& layout) {
  static const Architecture any;  // no warning reads it
  std::vector<std::string> warnings;
  for_each_rule(plan, [&](const Rule& rule, const std::string& stack) {
    if (rule.refuses(plan)) return;
    if (const auto breach = rule.breach(plan, any, layout))
      warnings.push_back(fmt::format("stack {}, {} ({}): {}", stack, breach->key, rule.word, breach->message));
  });
  return warnings;
}

}  // namespace plumbline::model
