#include "model/megatron/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/decimal.h"
#include "model/megatron/shell/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::pair<std::string_view, int> strategies[] = {
    {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};

std::int64_t data_parallel(const Plan& plan) {
  const double replica = static_cast<double>(plan.parallelism.tensor) * static_cast<double>(plan.parallelism.context) *
                         static_cast<double>(plan.parallelism.pipeline);
  if (replica < 1) return 1;  // a degree of 0 is rejected with the plan
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(plan.cluster.gpus) / replica));
}

constexpr const char* instances = "--num-distributed-optimizer-instances";
constexpr const char* fsdp = "--use-torch-fsdp2";
constexpr const char* keeps_gathered = "--torch-fsdp2-no-reshard-after-forward";

void read_instances(const RuleReader& in) {
  const auto count = in.number(instances);
  if (!count || *count <= 1) return;
  auto& degrees = in.plan.parallelism;
  const std::int64_t ranks = degrees.context * data_parallel(in.plan);
  if (degrees.zero_stage == 0) return in.note(instances, "nothing is sharded");
  if (ranks % *count != 0)
    return in.note(instances, fmt::format("does not divide the {} ranks that reduce a gradient", ranks));
  degrees.shard_group = ranks / *count;
}

void write_instances(const RuleWriter& out) {
  const auto& degrees = out.plan.parallelism;
  const std::int64_t ranks = degrees.context * data_parallel(out.plan), group = degrees.shard_group;
  if (degrees.zero_stage > 0 && group > 0 && group < ranks && ranks % group == 0)
    out.out.put(instances, std::to_string(ranks / group));
}

void read_sharding(const RuleReader& in) {
  auto& stage = in.plan.parallelism.zero_stage;
  if (in.given.has("--use-distributed-optimizer")) stage = 1;
  if (in.given.has(fsdp)) stage = 3;
  in.plan.parallelism.reshard_after_forward = !in.given.has(keeps_gathered);
  if (const auto zero = in.number("--zero-stage"); zero && *zero >= 0 && *zero <= 3) stage = *zero;
  // Its optimizer of bf16 parameters keeps a share of the states on each rank (deepspeed/runtime/bf16_optimizer.py).
  if (stage == 0 && in.given.has("--deepspeed") && in.given.has("--bf16")) {
    stage = 1;
    in.note("--deepspeed", "its BF16 optimizer shards the states, as stage 1 does");
  }
  if (in.given.has("--use-megatron-fsdp")) {
    const std::string wanted = in.given.value("--data-parallel-sharding-strategy").value_or("no_shard");
    for (const auto& [name, level] : strategies) {
      if (name == wanted) stage = level;
    }
  }
  read_instances(in);
}

void write_sharding(const RuleWriter& out) {
  const std::int64_t stage = out.plan.parallelism.zero_stage;
  if (stage >= 1) out.out.put_flag("--use-distributed-optimizer");
  write_instances(out);
  if (stage < 2) return;
  out.out.put_flag("--use-megatron-fsdp");
  out.out.put("--data-parallel-sharding-strategy", std::string(strategies[stage].first));
}

constexpr const char* preferences = "--rlhf-type";

// Sets what ms-swift learns besides next tokens. Its batches count pairs of answers, each of which is a sequence
// (MegatronDPOTrainer of modelscope/ms-swift swift/megatron/trainers/dpo_trainer.py @0abfe985); a reward model has no
// reference.
void read_preferences(const RuleReader& in) {
  const auto kind = in.given.value(preferences);
  if (!kind) return;
  const bool reward = *kind == "rm";
  if (*kind != "dpo" && !reward)
    return in.note(preferences, *kind == "grpo" ? "an update is priced as one on text: generation and reference are not"
                                                : *kind + " is priced as a training on text");
  in.plan.training.objective = "dpo";
  if (reward) in.plan.training.reference = "precomputed";
  if (reward) in.note(preferences, "head and loss are those of a vocabulary, which is too much for one reward");
  for (std::int64_t* count : {&in.plan.batch.micro_batch_size, &in.plan.batch.global_batch_size})
    if (__builtin_mul_overflow(*count, 2, count)) *count = 0;
}

// slime packs samples to so many tokens of a GPU. With samples of one length that is a micro-batch of as many as there
// is place for: the most that divide those of a data-parallel rank.
void read_packed_samples(const RuleReader& in) {
  constexpr const char* packed = "--max-tokens-per-gpu";
  const auto tokens = in.number(packed);
  auto& batch = in.plan.batch;
  const std::int64_t ranks = data_parallel(in.plan);
  if (!in.given.has("--use-dynamic-batch-size") || !tokens || batch.sequence_length < 1 || ranks < 1) return;
  std::int64_t place = 0;
  if (__builtin_mul_overflow(*tokens, in.plan.parallelism.context, &place)) return;
  const std::int64_t samples = batch.global_batch_size / ranks;
  constexpr std::int64_t most = 4096;  // samples of a micro-batch
  std::int64_t fitting = std::min({place / batch.sequence_length, samples, most});
  while (fitting > 1 && samples % fitting != 0) --fitting;
  batch.micro_batch_size = std::max<std::int64_t>(1, fitting);
  in.note(packed,
          fmt::format("samples have --seq-length, {} in a micro-batch: state their mean", batch.micro_batch_size));
}

void read_batch(const RuleReader& in) {
  auto& batch = in.plan.batch;
  read_preferences(in);
  if (const auto prompts = in.number("--rollout-batch-size"); prompts && *prompts > 0) {
    in.note("--rollout-batch-size", "a step of the training is priced, its rollout is not");
    const std::int64_t steps = std::max<std::int64_t>(1, in.number("--num-steps-per-rollout").value_or(1));
    std::int64_t samples = 0;
    const bool fits = !__builtin_mul_overflow(*prompts, in.number("--n-samples-per-prompt").value_or(1), &samples);
    if (fits && batch.global_batch_size == 0) batch.global_batch_size = samples / steps;
  }
  if (batch.global_batch_size == 0 && in.plan.cluster.gpus > 0) {
    std::int64_t product = 0;
    const bool fits = !__builtin_mul_overflow(batch.micro_batch_size, data_parallel(in.plan), &product);
    if (fits) batch.global_batch_size = product;
  }
  read_packed_samples(in);
  const auto samples = in.number("--train-samples");
  const auto steps = in.number("--train-iters");
  const auto tokens = in.number("--train-tokens");
  const double length = static_cast<double>(batch.sequence_length);
  if (tokens) {
    in.plan.run.tokens = static_cast<double>(*tokens);
  } else if (samples) {
    in.plan.run.tokens = static_cast<double>(*samples) * length;
  } else if (steps) {
    in.plan.run.tokens = static_cast<double>(*steps) * static_cast<double>(batch.global_batch_size) * length;
  }
}

void write_batch(const RuleWriter& out) {
  if (!out.plan.run.tokens || out.plan.batch.sequence_length < 1) return;
  const double samples = *out.plan.run.tokens / static_cast<double>(out.plan.batch.sequence_length);
  if (samples >= 1 && samples < 1e18) out.out.put("--train-samples", std::to_string(std::llround(samples)));
}

void read_context(const RuleReader& in) {
  const std::string type = in.given.value("--cp-comm-type").value_or("p2p");
  if (type == "all_gather" || type == "a2a") in.plan.parallelism.context_method = "all-gather";
  if (type == "a2a") {  // of attention it is as exposed
    in.note("--cp-comm-type", "a2a, which sends heads, is priced like all_gather of keys and values");
  } else if (type != "p2p" && type != "all_gather") {
    in.note("--cp-comm-type", fmt::format("{} is priced like p2p, a ring", type));
  }
}

void read_experts(const RuleReader& in) {
  const auto given = in.number("--expert-tensor-parallel-size");
  auto& degrees = in.plan.parallelism;
  degrees.expert_tensor = given ? *given : in.shape.experts ? degrees.tensor : 1;
  // MindSpeed's experts lie whole on the tensor-parallel ranks.
  if (in.shape.experts && in.given.has("--moe-tp-extend-ep")) {
    degrees.expert_tensor = 1;
    if (__builtin_mul_overflow(degrees.expert, degrees.tensor, &degrees.expert)) degrees.expert = 0;
  }
  read_context(in);
}

void write_experts(const RuleWriter& out) {
  const auto& degrees = out.plan.parallelism;
  const std::int64_t silent = out.shape.experts ? degrees.tensor : 1;
  if (degrees.expert_tensor != silent)
    out.out.put("--expert-tensor-parallel-size", std::to_string(degrees.expert_tensor));
  if (degrees.context_method == "all-gather") out.out.put("--cp-comm-type", "all_gather");
}

// Megatron's default gathers all tokens; flex is DeepEP unless another backend is named.
void read_dispatcher(const RuleReader& in) {
  if (!in.shape.experts) return;
  // DeepSpeed's experts take as many rows as their capacity is, by default that of an even share.
  const bool deepspeed = in.given.has("--deepspeed");
  if (deepspeed && !in.given.has("--disable-moe-token-dropping")) {
    in.plan.routing.capacity_factor = 1;
    in.plan.routing.pad_to_capacity = true;
  }
  const std::string type = in.given.value("--moe-token-dispatcher-type").value_or(deepspeed ? "alltoall" : "allgather");
  const std::string backend = in.given.value("--moe-flex-dispatcher-backend").value_or("deepep");
  const bool hybrid = backend == "hybridep";
  if (type == "flex" && !hybrid && backend != "deepep")
    in.note("--moe-flex-dispatcher-backend", fmt::format("{} is priced like deepep", backend));
  in.plan.stack.dispatcher = type == "flex"           ? (hybrid ? "hybridep" : "deepep")
                             : type == "alltoall_seq" ? "alltoall"
                                                      : type;
  constexpr const char* of_deepspeed = "--moe-train-capacity-factor";
  const auto factor = in.given.value(deepspeed ? of_deepspeed : "--moe-expert-capacity-factor");
  if (!deepspeed && in.given.has(of_deepspeed)) in.note(of_deepspeed, "holds for the experts of DeepSpeed");
  if (const auto number = factor ? parse_decimal(*factor) : std::nullopt; number && number->value() > 0)
    in.plan.routing.capacity_factor = number->value();
  if (in.given.has("--moe-pad-expert-input-to-capacity")) in.plan.routing.pad_to_capacity = true;
}

void write_dispatcher(const RuleWriter& out) {
  const std::string& dispatcher = out.plan.stack.dispatcher;
  if (!out.shape.experts) return;
  out.out.put_flag("--moe-grouped-gemm");  // else experts are computed one after the other
  const bool flexible = dispatcher == "deepep" || dispatcher == "hybridep";
  if (flexible) out.out.put("--moe-flex-dispatcher-backend", dispatcher);
  if (dispatcher != "allgather") out.out.put("--moe-token-dispatcher-type", flexible ? "flex" : dispatcher);
  const auto& routing = out.plan.routing;
  if (routing.capacity_factor) out.out.put("--moe-expert-capacity-factor", fmt::format("{}", *routing.capacity_factor));
  if (routing.pad_to_capacity.value_or(false)) out.out.put_flag("--moe-pad-expert-input-to-capacity");
}

// Without scopes whole layers are captured.
const std::vector<std::string> layer_scopes = {"attn", "mlp", "moe", "moe_router", "moe_preprocess"};

void read_software(const RuleReader& in) {
  auto& stack = in.plan.stack;
  if (in.given.has("--moe-router-fusion")) stack.fused.emplace_back("router");
  if (in.given.has("--moe-permute-fusion")) stack.fused.emplace_back("permute");
  if (in.given.has("--use-transformer-engine-op-fuser")) stack.fused.emplace_back("experts");
  const bool captures = in.given.value("--cuda-graph-impl").value_or("none") != "none" ||
                        in.given.has("--enable-cuda-graph") || in.given.has("--external-cuda-graph");
  if (!captures) return;
  // An implementation of its own since 2026, a scope before.
  if (in.given.value("--cuda-graph-impl") == "full_iteration") stack.graphs.emplace_back("full_iteration");
  for (const std::string& scope : in.given.values("--cuda-graph-scope"))
    if (scope == "full_iteration" || std::ranges::find(layer_scopes, scope) != layer_scopes.end())
      stack.graphs.push_back(scope);
    else if (scope != "full")
      in.note("--cuda-graph-scope",
              fmt::format("'{}' is no known scope: {} or full_iteration", scope, fmt::join(layer_scopes, ", ")));
  if (stack.graphs.empty()) stack.graphs = layer_scopes;
}

void write_software(const RuleWriter& out) {
  if (out.shape.window) out.out.put("--window-size", fmt::format("{},0", *out.shape.window));
  if (out.shape.quick_geglu) out.out.put("--glu-linear-offset", "1.0");
  if (!out.shape.pattern.empty())
    out.out.put("--spec", GivenArgument{{"megatron.core.models.hybrid.hybrid_layer_specs", "hybrid_stack_spec"}, 0});
  const auto& stack = out.plan.stack;
  const auto fuses = [&](std::string_view name) { return std::ranges::find(stack.fused, name) != stack.fused.end(); };
  if (fuses("router")) out.out.put_flag("--moe-router-fusion");
  if (fuses("permute")) out.out.put_flag("--moe-permute-fusion");
  if (fuses("experts")) out.out.put_flag("--use-transformer-engine-op-fuser");
  if (stack.graphs.empty()) return;
  const bool whole = std::ranges::find(stack.graphs, "full_iteration") != stack.graphs.end();
  out.out.put("--cuda-graph-impl", whole ? "local" : "transformer_engine");
  if (stack.graphs != layer_scopes) out.out.put("--cuda-graph-scope", GivenArgument{stack.graphs, 0});
}

double gradient_bytes(const Plan& plan) {
  if (plan.precision.gradients == Precision::fp32) return 4;
  return plan.precision.gradients == Precision::fp8 ? 1 : 2;
}

// Megatron's default bucket: 40 million parameters, or a million for each data-parallel rank.
double default_bucket(const Plan& plan) { return std::max(40e6, 1e6 * static_cast<double>(data_parallel(plan))); }

void read_overlap(const RuleReader& in) {
  auto& overlap = in.plan.overlap;
  // Without sharded optimizer states nothing is gathered, and the key has no meaning.
  overlap.parameter_gather = in.plan.parallelism.zero_stage == 0 || in.given.has("--overlap-param-gather");
  // PyTorch's FSDP2 gathers ahead and reduces during the backward pass without an argument.
  if (in.given.has(fsdp)) overlap.parameter_gather = overlap.gradient_reduce = true;
  const auto bucket = in.number("--ddp-bucket-size");
  if (bucket) {
    overlap.gradient_bucket_bytes = static_cast<double>(*bucket) * gradient_bytes(in.plan);
  } else if (overlap.gradient_reduce) {
    overlap.gradient_bucket_bytes = default_bucket(in.plan) * gradient_bytes(in.plan);
  }
  const auto sms = in.number("--moe-deepep-num-sms");
  if (!sms) return;
  overlap.communication_sms = *sms;
  overlap.sm_policy = "none";
}

void write_overlap(const RuleWriter& out) {
  const auto& overlap = out.plan.overlap;
  if (out.plan.parallelism.zero_stage > 0 && overlap.parameter_gather) out.out.put_flag("--overlap-param-gather");
  if (out.shape.experts && out.plan.stack.dispatcher == "deepep" && overlap.communication_sms > 0)
    out.out.put("--moe-deepep-num-sms", std::to_string(overlap.communication_sms));
  const double parameters = overlap.gradient_bucket_bytes / gradient_bytes(out.plan);
  const bool silent = overlap.gradient_reduce ? parameters == default_bucket(out.plan)
                                              : overlap.gradient_bucket_bytes == Plan().overlap.gradient_bucket_bytes;
  if (!silent && parameters >= 1 && parameters < 1e18) {
    out.out.put("--ddp-bucket-size", std::to_string(std::llround(parameters)));
  }
}

}  // namespace

std::optional<std::int64_t> RuleReader::number(std::string_view argument) const {
  const auto text = given.value(argument);
  const auto value = integer(text.value_or(""));
  if (text && !value) refuse(argument, fmt::format("'{}' is no whole number", *text));
  return value;
}

void RuleReader::note(std::string_view argument, std::string text) const {
  notes.push_back({given.line(argument), fmt::format("{}: {}", argument, text)});
}

void RuleReader::refuse(std::string_view argument, std::string text) const {
  notes.push_back({given.line(argument), fmt::format("{}: {}", argument, text), NoteKind::refused});
}

Rule sharding_rule() { return {read_sharding, write_sharding}; }
Rule batch_rule() { return {read_batch, write_batch}; }
Rule expert_rule() { return {read_experts, write_experts}; }
Rule dispatcher_rule() { return {read_dispatcher, write_dispatcher}; }
Rule software_rule() { return {read_software, write_software}; }
Rule overlap_rule() { return {read_overlap, write_overlap}; }

std::vector<Rule> rules() {
  return {sharding_rule(),  batch_rule(),     expert_rule(),   dispatcher_rule(), software_rule(),
          precision_rule(), attention_rule(), loss_rule(),     overlap_rule(),    recompute_rule(),
          schedule_rule(),  training_rule(),  optimizer_rule()};
}

Plan megatron_defaults() {
  Plan plan;
  plan.overlap.gradient_reduce = false;
  plan.precision.gemm = Precision::fp32;
  plan.loss.kernel = "unfused_in_place";
  return plan;
}

}  // namespace plumbline::model::megatron
