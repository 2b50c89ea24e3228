#include "model/plan/detail/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "model/base/text.h"
#include "model/graph/attributes.h"
#include "model/plan/sharding_words.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
// Days and dollars are products of these amounts, and stay numbers with them.
constexpr double most_tokens = 1e20, most_usd = 1e6;

struct NumberRange {
  std::string_view key;
  double least = 0;
  bool with_least = true;
  double most = no_limit;
  bool with_most = true;
  std::string_view hint = {};  // to values outside of it; "": what the limits imply
};
constexpr NumberRange number_ranges[] = {
    {"cluster.speed_deviation", 0, true, 1, true, "a deviation is a share: 0.005 is 0.5 %"},
    {"cluster.jitter", 0, true, 1, true, "a deviation is a share: 0.005 is 0.5 %"},
    {"cluster.background", 0, true, 1, false, "others take a share and leave the rest"},
    {"cluster.nic_gbps", 0, false, 1e6, true, "it is in Gb/s: that of 50 GB/s is 400"},
    {"offload.activations", 0, true, 1, true, "1 offloads all of them"},
    {"routing.imbalance", 0, true, 1000, true,  // that of a million ranks
     "rows of n ranks vary by at most the square root of n - 1 times their mean"},
    {"routing.skew", 0, true, 10, true, "1: experts differ as much as the logits of one token"},
    {"routing.correlation", 0, true, 1, true, "1: all micro-batches prefer the same experts"},
    {"input.bytes_per_token"},
    {"search.min_fit", 0, true, 1, false, "a probability, such as 0.95; 0: whatever its own peak fits"},
    {"campaign.phase.share", 0, false, 1, true, "shares are of run.tokens"},
    {"campaign.phase.", 0, false},
    {"campaign.storage_gbps", 0, false},
    {"campaign."},
    {"inference.prefix_hit_rate", 0, true, 1, false, "the last token of a prompt is always computed"},
    {"inference.expert_imbalance", 1, true, no_limit, true, "1: every rank has the same rows"},
    {"inference.expert_skew", 0, true, 10, true, "0: every expert is as popular"},
    {"inference.acceptance", 0, false, 1, true, "a share, such as 0.9"},
    {"inference.demand_output_tokens_per_day", 0, false, most_tokens, true, "check the number of digits"},
    {"inference.memory_share", 0, false, 1, true, "a share, such as 0.9"},
    {"rollout.answer_tokens_sd", 0, true, no_limit, true, "0: all answers have one length"},
    {"rollout.oversampling", 1, true, 1000, true, "1: every prompt that is answered is trained on"},
    {"rollout.reward_s"},
    {"run.goodput", 0, false, 1, true, "1: no second is lost"},
    {"run.price_usd_per_gpu_hour", 0, true, most_usd, true, "it is in USD: 2.5"},
    {"run.tokens", 0, false, most_tokens, true, "check the number of digits"},
    {"run.utilisation", 0, false, 1, true, "1: the GPUs work around the clock"},
    {"run.pue", 1, true, no_limit, true, "power of the building over that of the machines"},
    {"run.electricity_usd_per_kwh", 0, true, most_usd, true, "it is in USD: 0.1"},
    {"run.phase.gpu_hours"},
    {"", 0, false}};  // all others

// Returns the range of the first entry that begins the key.
const NumberRange& number_range(std::string_view key) {
  return *std::ranges::find_if(number_ranges, [&](const NumberRange& range) { return key.starts_with(range.key); });
}

std::optional<Error> refuse(std::string message, std::string hint) {
  Error error;
  error.message = std::move(message);
  error.hint = std::move(hint);
  return error;
}

std::optional<Error> check_word(std::string_view value, const std::vector<std::string>& words) {
  if (std::ranges::find(words, value) != words.end()) return std::nullopt;
  return refuse(fmt::format("unknown word '{}'", value), choice_hint(value, words));
}

// Returns the largest allowed degree below `found` and the smallest above it, up to `limit`, as a hint.
std::string nearest_degrees(std::int64_t found, std::int64_t limit, const Divisions::Allowed& allowed) {
  std::int64_t below = found, above = found;
  while (below > 0 && !allowed(below)) --below;
  while (above <= limit && !allowed(above)) ++above;
  if (above > limit) return fmt::format("use {}", below);
  return below > 0 ? fmt::format("use {} or {}", below, above) : fmt::format("use {}", above);
}

void check_experts(Divisions& rules, const Plan& plan, const Architecture& model) {
  const MixtureOfExperts& experts = model.experts;
  const auto& degrees = plan.parallelism;
  if (experts.routed_experts == 0) {
    rules.require(
        "parallelism.expert_tensor", degrees.expert_tensor, [](std::int64_t d) { return d == 1; },
        fmt::format("{} has no experts to divide", model.name));
    return;
  }
  rules.require_divides("parallelism.expert_tensor", degrees.expert_tensor, experts.intermediate_size,
                        "columns of an expert");
  if (experts.shared_experts > 0)
    rules.require_divides("parallelism.tensor", degrees.tensor, experts.shared_width(),
                          "columns of the shared experts");
  // Without sequence parallelism every tensor rank holds all tokens and would send each of them to its experts again.
  rules.require(
      "parallelism.tensor", degrees.tensor, [&](std::int64_t d) { return d == 1 || degrees.sequence; },
      "tensor parallelism of a model with experts needs sequence parallelism (parallelism.sequence = true): else each "
      "token reaches its experts once per tensor rank");
}

}  // namespace

// The upper limits keep the product of three degrees, and of a batch and a sequence, within 64 bits.
IntegerRange integer_range(std::string_view key) {
  if (key == "parallelism.zero_stage" || key == "search.zero_stage") return {0, 3};
  if (key == "parallelism.shard_group" || key == "overlap.prefetch" || key == "overlap.collective_sms")
    return {0, 1'000'000};
  if (key == "overlap.communication_sms" || key == "search.communication_sms") return {0, 1'000'000};
  if (key == "recompute.layers" || key == "schedule.layers_per_stage") return {0, 1'000'000};
  if (key == "routing.rows_per_rank" || key == "campaign.spare_nodes") return {0, 1'000'000'000};
  if (key == "inference.speculative_tokens") return {0, 16};
  if (key == "inference.concurrency" || key == "inference.chunked_prefill_tokens" ||
      key == "inference.stream_interval" || key.ends_with("redundant_experts"))
    return {0, 1'000'000'000};
  if (key.starts_with("inference.") && !key.ends_with("_tokens")) return {1, 1'000'000};
  if (key.starts_with("parallelism.") || key.starts_with("schedule.") || key.starts_with("search."))
    return {1, 1'000'000};
  if (key.starts_with("rollout.") && !key.ends_with("_tokens")) return {1, 1'000'000};
  return {1, 1'000'000'000};
}

std::vector<std::string> plan_words(std::string_view key) {
  if (key == "attention.kernel") return attention_kernels();
  if (key == "schedule.kind" || key == "search.schedule") {
    std::vector<std::string> names;
    for (const ScheduleKind* kind : schedule_kinds()) names.emplace_back(kind->name());
    return names;
  }
  static const std::map<std::string_view, std::vector<std::string>> words = {
      {"cluster.fleet", {"healthy", "stragglers"}},
      {"parallelism.context_method", {"ring", "all-gather", "all-to-all"}},
      {"parallelism.reduce_after", {"pass", "run", "step"}},
      {"schedule.layers_per_stage", {"even", "balanced"}},
      {"precision.scaling", {"current", "delayed", "row"}},
      {"precision.weight_cast", {"micro_batch", "step"}},
      {"precision.parameters", {"bf16", "fp8"}},
      {"precision.attention", {"bf16", "fp8", "mxfp8"}},
      {"precision.head", {"bf16", "mxfp8"}},
      {"precision.layouts", {"both", "one"}},
      {"training.method", {"full", "lora", "qlora"}},
      {"training.targets", {"attention", "mlp", "experts"}},
      {"training.objective", {"next-token", "dpo"}},
      {"training.reference", {"model", "precomputed"}},
      {"optimizer.kind", {"adamw", "muon"}},
      {"optimizer.ema", {"none", "host"}},
      {"optimizer.gradient_copy", {"none", "fp32"}},
      {"loss.kernel", {"fused", "fused_in_place", "unfused", "unfused_in_place", "linear"}},
      {"recompute.policy", {"none", "selective", "full"}},
      {"recompute.operators", {"rmsnorm", "mla_up_projection", "swiglu", "core_attention", "mlp", "moe"}},
      {"overlap.sm_policy", {"static", "none", "dynamic"}},
      {"routing.balancing", {"none", "auxiliary", "bias"}},
      {"stack.dispatcher", {"deepep", "hybridep", "alltoall", "allgather"}},
      {"stack.fused", {"router", "permute", "experts"}},
      {"stack.graphs", {"attn", "mlp", "moe", "moe_router", "moe_preprocess", "full_iteration"}},
      {"search.recompute", {"none", "selective", "mlp", "moe", "half", "full", "given"}},
      {"search.split", {"even", "first-1", "last-1", "last-2", "ends-1", "balanced", "given"}},
      {"search.remedies",
       {"none", "offload_optimizer", "offload_activations", "bf16_moments", "bf16_gradients", "bf16_master_weights"}},
      {"campaign.checkpoint", {"synchronous", "asynchronous", "neighbour"}},
      {"campaign.checkpoint_storage", {"parallel", "ssd"}},
      {"inference.kv_cache", {"fp32", "bf16", "fp16", "fp8", "int6", "nvfp4"}},
      {"inference.arrivals", {"steady", "waves"}},
      {"rollout.algorithm", {"grpo", "ppo", "dapo"}},
      {"rollout.placement", {"colocated", "split", "asynchronous"}},
      {"run.goodput", {"campaign"}},
      {"run.ownership", {"rent", "purchase"}}};
  const auto found = words.find(key);
  return found == words.end() ? std::vector<std::string>() : found->second;
}

const std::map<std::string, std::vector<std::string>>& list_words(std::string_view key) {
  static const std::map<std::string, std::vector<std::string>> none,
      graphs = {{"none", {}}, {"partial", {"attn", "moe_router", "moe_preprocess"}}, {"full", {"full_iteration"}}},
      targets = {{"all-linear", {"attention", "mlp", "experts"}}};
  if (key == "training.targets") return targets;
  return key == "stack.graphs" ? graphs : none;
}

std::string number_range_text(std::string_view key) {
  const NumberRange& range = number_range(key);
  std::string least = fmt::format("{}{:g}", range.with_least ? "at least " : "above ", range.least);
  if (range.most == no_limit) return least;
  return fmt::format("{}, {}{:g}", least, range.with_most ? "at most " : "below ", range.most);
}

std::string choice_hint(std::string_view found, const std::vector<std::string>& choices) {
  return did_you_mean_before(found, choices, fmt::format("one of {}", fmt::join(choices, ", ")));
}

std::optional<Error> check_plan_value(std::string_view key, std::int64_t value) {
  const IntegerRange range = integer_range(key);
  if (value < range.least)
    return refuse(fmt::format("must be at least {}, found {}", range.least, value),
                  key == "parallelism.zero_stage" ? "0 replicates everything, 1 to 3 shard more and more"
                                                  : fmt::format("the smallest meaningful value is {}", range.least));
  if (value > range.most)
    return refuse(fmt::format("must be at most {}, found {}", range.most, value),
                  key == "parallelism.zero_stage" ? "3, FSDP, shards parameters, gradients and optimizer states"
                                                  : "check the number of digits");
  return std::nullopt;
}

std::optional<Error> check_plan_value(std::string_view key, double value) {
  const NumberRange& range = number_range(key);
  if (!std::isfinite(value)) return refuse("must be a finite number", "");
  if (value < range.least || (value == range.least && !range.with_least)) {
    if (range.least > 0)
      return refuse(fmt::format("must be at least {:g}, found {}", range.least, value), std::string(range.hint));
    return refuse(fmt::format("must {}, found {}", range.with_least ? "not be negative" : "be greater than 0", value),
                  range.with_least ? "0 switches it off" : "leave the key out for its default");
  }
  if (value > range.most || (value == range.most && !range.with_most))
    return refuse(fmt::format("must be {} {:g}, found {}", range.with_most ? "at most" : "below", range.most, value),
                  std::string(range.hint));
  return std::nullopt;
}

std::optional<Error> check_plan_value(std::string_view key, const std::string& value) {
  if (value.empty()) return refuse("must not be empty", "");
  if ((key == "campaign.start" || key == "campaign.deadline") && !parse_date(value))
    return refuse(fmt::format("'{}' is not a date", value), "for example \"2026-12-01\"");
  if (key == "schedule.kind" && value.starts_with(schedule_file_prefix) && value.size() > schedule_file_prefix.size())
    return std::nullopt;
  if (key == "schedule.kind" || key == "search.schedule") {
    const auto kind = find_schedule(value);
    return kind ? std::nullopt : refuse(kind.error().message, kind.error().hint);
  }
  const std::vector<std::string> words = plan_words(key);
  return words.empty() ? std::nullopt : check_word(value, words);
}

std::optional<Error> check_plan_value(std::string_view key, const ConfigValue& value) {
  if (key != "run.goodput") return std::nullopt;
  if (const auto* word = std::get_if<std::string>(&value)) return check_word(*word, plan_words(key));
  if (std::holds_alternative<bool>(value)) return refuse("expected a number or \"campaign\"", "a share, such as 0.9");
  return check_plan_value(key, *number_of(value));
}

namespace {

// How the ranks that reduce a gradient shard; 0: as many as the other number leaves.
struct Sharding {
  std::int64_t shards = 0, replicas = 0;
  bool of_context = false;  // the shards are those of one context rank
};

// The keys of renamed aliases, and of others those that they set.
struct Alias {
  std::string_view name, renamed;
};
constexpr Alias aliases[] = {
#define PLAN_ALIAS(NAME, ...) {NAME, ""},
#define RENAMED_KEY(NAME, KEY, ...) {NAME, KEY},
#include "model/plan/plan_keys.def"
};

std::string_view leaf(std::string_view name) { return name.substr(name.rfind('.') + 1); }

Error refused(const GivenAlias& alias, ErrorKind kind, std::string message, std::string hint) {
  return {kind, std::move(message), alias.place.file, alias.place.line, alias.name, std::move(hint)};
}

// Returns the positive number of a text, else 0.
std::int64_t ranks_of(std::string_view text) {
  return std::max<std::int64_t>(0, parse_number<std::int64_t>(trimmed(text)).value_or(0));
}

// Reads an alias of data parallelism into `sharding`; returns what is expected where the value is another.
std::string_view read_sharding(const GivenAlias& alias, Sharding& sharding) {
  const std::string_view word = leaf(alias.name);
  const std::int64_t ranks = ranks_of(alias.value);
  if (word == "hsdp") {
    const std::vector<std::string_view> parts = split_at(alias.value, 'x');
    if (parts.size() == 2) sharding = {ranks_of(parts[1]), ranks_of(parts[0])};
    return sharding.shards > 0 && sharding.replicas > 0 ? "" : "expected replicas and ranks of a group, such as 2x64";
  }
  if (word.starts_with("dp_")) {
    sharding.of_context = true;
    const bool shard = word == "dp_shard";
    (shard ? sharding.shards : sharding.replicas) = ranks;
    if (sharding.replicas == 0) sharding.replicas = 1;
    if (ranks > 0 || (shard && alias.value == "-1")) return "";
    return shard ? "expected a number of ranks, or -1 for all" : "expected a number of replicas";
  }
  sharding = {ranks, 1};
  if (word == "ddp") std::swap(sharding.shards, sharding.replicas);
  return ranks > 0 || alias.value == "true" ? "" : "expected a number of ranks, or true for all";
}

// Fills in what is not given. Returns an error where shards * replicas are not `all`.
std::optional<Error> fill(const GivenAlias& alias, const Plan& plan, std::int64_t all, Sharding& sharding) {
  const auto& degrees = plan.parallelism;
  if (sharding.of_context) sharding.shards *= degrees.context;
  const std::int64_t shards = std::max<std::int64_t>(1, sharding.shards);
  const std::int64_t given = shards * std::max<std::int64_t>(1, sharding.replicas);
  const bool open = sharding.shards == 0 || sharding.replicas == 0;
  const bool fits = open ? all % given == 0 : given == all;
  if (sharding.shards == 0) sharding.shards = std::max<std::int64_t>(1, all / given);
  if (fits) return std::nullopt;
  std::string hint = fmt::format("{} ranks need cluster.gpus={}", given, given * degrees.tensor * degrees.pipeline);
  if (shards > 1 && all % shards == 0 && all > shards)
    hint = fmt::format("parallelism.hsdp={}x{} has {} replicas; {}", all / shards, shards, all / shards, hint);
  return refused(alias, ErrorKind::infeasible,
                 fmt::format("{} ranks of data parallelism, but {} GPUs / (tensor {} * pipeline {}) are {}{}", given,
                             plan.cluster.gpus, degrees.tensor, degrees.pipeline, all,
                             degrees.context > 1 ? fmt::format(", context {} included", degrees.context) : ""),
                 hint);
}

void set_key(const GivenAlias& alias, const std::string& key, std::int64_t value, std::int64_t& field, Plan& plan) {
  if (plan.places.contains(key)) return;
  field = value;
  plan.places[key] = {alias.place.file, alias.place.line, std::string(leaf(alias.name))};
}

}  // namespace

std::string alias_name(std::string_view key) {
  for (const Alias& alias : aliases)
    if (alias.name == key || leaf(alias.name) == key) return std::string(alias.name);
  return "";
}

std::string_view renamed_key(std::string_view name) {
  for (const Alias& alias : aliases)
    if (alias.name == name) return alias.renamed;
  return "";
}

std::vector<std::string> alias_targets(std::string_view alias) {
  if (const std::string_view key = renamed_key(alias); !key.empty()) return {std::string(key)};
  if (alias.starts_with("stack.")) return {"stack.name"};
  return {"parallelism.zero_stage", "parallelism.shard_group"};
}

bool complete_each_other(std::string_view alias, std::string_view other) {
  return alias != other && leaf(alias).starts_with("dp_") && leaf(other).starts_with("dp_");
}

std::optional<Error> apply_aliases(const std::vector<GivenAlias>& given, Plan& plan) {
  Sharding sharding;
  const GivenAlias* last = nullptr;
  for (const GivenAlias& alias : given) {
    if (alias.name.starts_with("stack.")) {
      if (alias.value != "true" && alias.value != "false")
        return refused(alias, ErrorKind::input, "expected true or false", "another stack is a stack.name");
      const bool compiled = (alias.value == "true") == (leaf(alias.name) == "compile");
      if (plan.places.contains("stack.name")) continue;
      plan.stack.name = compiled ? "torchtitan-compile" : "pytorch-fsdp-eager";
      plan.places["stack.name"] = {alias.place.file, alias.place.line, std::string(leaf(alias.name))};
      continue;
    }
    const std::string_view expected = read_sharding(alias, sharding);
    if (!expected.empty())
      return refused(alias, ErrorKind::input, fmt::format("{}, found '{}'", expected, alias.value),
                     sharding_hint(alias.value));
    last = &alias;
  }
  const auto& degrees = plan.parallelism;
  const std::int64_t blocks = degrees.tensor * degrees.pipeline;
  // Degrees that do not divide are refused with the layout.
  if (last == nullptr || plan.cluster.gpus % (blocks * degrees.context) != 0) return std::nullopt;
  const std::int64_t all = plan.cluster.gpus / blocks;
  if (auto error = fill(*last, plan, all, sharding)) return error;
  const std::int64_t shards = sharding.shards;
  set_key(*last, "parallelism.zero_stage", shards > 1 || last->name.ends_with("fsdp") ? 3 : 0,
          plan.parallelism.zero_stage, plan);
  set_key(*last, "parallelism.shard_group", shards > 1 && shards < all ? shards : 0, plan.parallelism.shard_group,
          plan);
  return std::nullopt;
}

void Divisions::require(const std::string& key, std::int64_t degree, const Allowed& allowed, std::string rule) {
  if (error_ || allowed(degree)) return;
  constexpr std::int64_t most = 4096;  // larger degrees exist nowhere
  error_ = plan_error(plan_, ErrorKind::infeasible, key, std::move(rule),
                      nearest_degrees(degree, std::max(most, degree), allowed));
}

void Divisions::require_divides(const std::string& key, std::int64_t degree, std::int64_t whole,
                                std::string_view what) {
  require(
      key, degree, [whole](std::int64_t d) { return whole % d == 0; },
      fmt::format("{} {} do not divide over {} ranks", whole, what, degree));
}

// Fewer key-value heads than ranks are copied, and each needs the same whole number of copies. With a latent every head
// has its own keys and values.
void Divisions::require_heads(const std::string& key, std::int64_t tensor, const Architecture& model) {
  const HeadShape others = model.head_shape(false), windowed = model.head_shape(model.window.tokens > 0);
  require_divides(key, tensor, others.heads, "attention heads");
  require_divides(key, tensor, windowed.heads, "attention heads of layers with a window");
  const Recurrence& r = model.recurrence;
  if (r.value_heads > 0)
    require(
        key, tensor,
        [&](std::int64_t d) { return r.value_heads % d == 0 && (r.key_heads % d == 0 || d % r.key_heads == 0); },
        fmt::format(
            "{} heads of the recurrence do not divide over {} ranks, or its {} keys neither do nor {} ranks into "
            "copies of them",
            r.value_heads, tensor, r.key_heads, tensor));
  if (model.attention == AttentionKind::multi_head_latent) return;
  if (model.attention == AttentionKind::shared_key_value)
    require_divides(key, tensor, model.shared.output_groups, "groups of attention's output");
  const auto shares = [](const HeadShape& shape, std::int64_t d) {
    const std::int64_t heads = shape.key_value_heads;
    return shape.heads % d == 0 && (heads % d == 0 || d % heads == 0);
  };
  const HeadShape& refused = shares(others, tensor) ? windowed : others;
  require(
      key, tensor, [&](std::int64_t d) { return shares(others, d) && shares(windowed, d); },
      fmt::format("{} key-value heads neither divide over {} ranks nor {} ranks into copies of them",
                  refused.key_value_heads, tensor, tensor));
}

// Context ranks send each other heads of Mamba-2 and of the delta rules whatever attention does, as NVIDIA/Megatron-LM
// has it: keys that are fewer travel as copies in the former (@00caa53 megatron/core/ssm/mamba_context_parallel.py),
// and have to divide in the latter (@00bebb4 megatron/core/ssm/gated_delta_net/common.py). Lightning attention
// gathers states whatever its heads are; of Mamba-1 no public code divides sequences (state-spaces/mamba issue 482 asks
// for it).
void Divisions::require_recurrent_heads(std::int64_t context, std::int64_t tensor, const Architecture& model) {
  const Recurrence& r = model.recurrence;
  if (r.value_heads == 0 || r.constant()) return;
  const bool copies = r.kind == RecurrenceKind::state_space;
  require(
      "parallelism.context", context, [&](std::int64_t d) { return d == 1 || copies || r.delta(); },
      fmt::format("layers of {} carry a state along the sequence, which no operator here sends between context ranks",
                  model.name));
  const std::int64_t values = r.value_heads / tensor, keys = r.key_heads % tensor == 0 ? r.key_heads / tensor : 0;
  require(
      "parallelism.context", context,
      [&](std::int64_t d) {
        return d == 1 || (keys > 0 && values % d == 0 && (keys % d == 0 || (copies && d % keys == 0)));
      },
      fmt::format("{} heads of the recurrence and {} of its keys do not divide over {} tensor and {} context ranks{}",
                  r.value_heads, r.key_heads, tensor, context,
                  copies ? ", nor do the latter into copies of the keys of a tensor rank" : ""));
}

void Divisions::require_one_stage(const std::string& key, std::int64_t stages, const Architecture& model) {
  require(
      key, stages,
      [&](std::int64_t d) {
        return d == 1 ||
               (model.borrowed.layers == 0 && model.layer_inputs.columns == 0 && model.shared_blocks.adapter_rank == 0);
      },
      fmt::format("layers of {} read what other layers or the embedding made next to the stream, or share matrices, "
                  "which no operator here sends between stages",
                  model.name));
}

std::optional<Error> check_divisions(const Plan& plan, const Architecture& model) {
  const auto& degrees = plan.parallelism;
  Divisions rules(plan);
  rules.require_heads("parallelism.tensor", degrees.tensor, model);
  rules.require_divides("parallelism.tensor", degrees.tensor, model.intermediate_size, "columns of the MLP");
  rules.require_one_stage("parallelism.pipeline", degrees.pipeline, model);
  check_experts(rules, plan, model);
  const std::int64_t length = plan.batch.sequence_length;
  // Each rank takes one piece from the front of the sequence and one from its back, so that causal work is even.
  rules.require(
      "parallelism.context", degrees.context, [length](std::int64_t d) { return d == 1 || length % (2 * d) == 0; },
      fmt::format("{} tokens do not divide into two pieces for each of {} context ranks", length, degrees.context));
  if (degrees.context_method == "all-to-all")
    for (const bool windowed : {false, model.window.tokens > 0}) {
      const HeadShape shape = model.head_shape(windowed);
      const std::int64_t heads = shape.heads / degrees.tensor;
      const bool copied = model.attention == AttentionKind::grouped_query;
      const std::int64_t keys = copied ? std::max<std::int64_t>(1, shape.key_value_heads / degrees.tensor) : heads;
      rules.require(
          "parallelism.context", degrees.context,
          [&](std::int64_t d) { return heads % d == 0 && (keys % d == 0 || d % keys == 0); },
          fmt::format("{} attention heads of a rank do not divide over {} context ranks, or its {} key-value heads "
                      "neither do nor {} ranks into copies of them",
                      heads, degrees.context, keys, degrees.context));
    }
  rules.require_recurrent_heads(degrees.context, degrees.tensor, model);
  rules.require(
      "parallelism.context", degrees.context, [&](std::int64_t d) { return d == 1 || model.sparse.tokens == 0; },
      fmt::format("the tokens that the indexer of {} chooses may be on any context rank, and no operator brings them",
                  model.name));
  if (degrees.sequence)
    rules.require(
        "parallelism.tensor", degrees.tensor, [&](std::int64_t d) { return length % (degrees.context * d) == 0; },
        fmt::format("{} tokens do not divide over {} context and {} tensor ranks, as sequence parallelism needs",
                    length, degrees.context, degrees.tensor));
  return rules.error();
}

}  // namespace plumbline::model
