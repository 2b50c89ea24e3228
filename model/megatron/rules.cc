#include "model/megatron/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "model/architecture/adapter_targets.h"
#include "model/base/decimal.h"
#include "model/megatron/shell/shell.h"

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
  if (*kind == "grpo") return;  // See read_rollout().
  if (*kind != "dpo" && !reward) return in.note(preferences, *kind + " is priced as a training on text");
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
  if (!in.plan.rollout.given) read_packed_samples(in);
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

constexpr const char* context_algorithm = "--context-parallel-algo";

void read_context(const RuleReader& in) {
  const std::string type = in.given.value("--cp-comm-type").value_or("p2p");
  const std::string algorithm = in.given.value(context_algorithm).value_or("megatron_cp_algo");
  if (type == "all_gather") in.plan.parallelism.context_method = "all-gather";
  if (type == "a2a" || algorithm == "ulysses_cp_algo") {
    in.plan.parallelism.context_method = "all-to-all";
  } else if (type != "p2p" && type != "all_gather") {
    in.note("--cp-comm-type", fmt::format("{} is priced like p2p, a ring", type));
  } else if (algorithm != "megatron_cp_algo") {
    in.note(context_algorithm, fmt::format("{} is priced like p2p, a ring", algorithm));
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
  if (degrees.context_method == "all-to-all") out.out.put("--cp-comm-type", "a2a");
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

// What trains: all weights, or the adapters of ms-swift; and what updates it.
namespace {

constexpr std::int64_t silent_rank = 8;  // of ms-swift
constexpr std::string_view silent_modules = "all-linear";
constexpr const char* modules_of_mindspeed = "--lora-target-modules";

void read_training(const RuleReader& in) {
  const bool adapters = in.given.has(modules_of_mindspeed);
  const std::string method = in.given.value("--train-type").value_or(adapters ? "lora" : "full");
  if (method == "full") return;
  if (method != "lora") return in.note("--train-type", "'" + method + "' is not modelled: all weights train");
  const char* named = adapters ? modules_of_mindspeed : "--target-modules";
  std::vector<std::string> targeted = in.given.values(named);
  if (targeted.empty()) targeted.emplace_back(silent_modules);
  auto& training = in.plan.training;
  training.method = method;
  training.rank = in.number("--lora-rank").value_or(silent_rank);
  const bool experts = in.shape.experts.has_value();
  const bool all = std::ranges::find(targeted, silent_modules) != targeted.end();
  training.targets = adapter_targets(targeted, experts).words();
  if (!all && !training.targets.empty()) return;
  training.targets = AdapterTargets{true, true, experts}.words();
  if (!all) in.note(named, "no module of attention or MLP is named: all-linear is priced");
}

constexpr const char* optimizer = "--optimizer";

void read_optimizer(const RuleReader& in) {
  const std::string kind = in.given.value(optimizer).value_or("adam");
  if (kind.ends_with("muon"))
    in.plan.optimizer.kind = "muon";
  else if (kind != "adam")
    in.notes.push_back(
        {in.given.line(optimizer),
         std::string(optimizer) + " " + kind + ": not modelled; it can change the cost: the optimizer is Adam",
         NoteKind::not_modeled});
}

// Megatron's Muon takes no distributed optimizer.
void write_optimizer(const RuleWriter& out) {
  if (out.plan.optimizer.kind == "muon" && out.plan.parallelism.zero_stage == 0) out.out.put(optimizer, "muon");
}

// Number formats and recomputation.

Precision fp8_format(const std::string& recipe) {
  if (recipe == "mxfp8") return Precision::mxfp8;
  return recipe == "delayed" || recipe == "tensorwise" ? Precision::fp8_tensor : Precision::fp8;
}

Precision compute_format(const Given& given) {
  if (given.has("--fp4-format")) return Precision::nvfp4;
  if (given.has("--fp8-format")) return fp8_format(given.value("--fp8-recipe").value_or("delayed"));
  if (given.has("--bf16")) return Precision::bf16;
  return given.has("--fp16") ? Precision::fp16 : Precision::fp32;
}

// Reads the format of an argument; an unknown format is noted and the field kept.
void read_format(const RuleReader& in, const std::string& argument, Precision& field) {
  const auto word = in.given.value(argument);
  if (!word) return;
  const auto format = parse_precision(*word);
  if (format) {
    field = *format;
  } else {
    in.note(argument, fmt::format("'{}' is no known number format; {} is kept", *word, to_string(field)));
  }
}

void read_precision(const RuleReader& in) {
  auto& precision = in.plan.precision;
  if (in.given.has("--bf16") && in.given.has("--fp16")) in.refuse("--fp16", "not together with --bf16");
  precision.gemm = compute_format(in.given);
  precision.dispatch = precision.combine = is_quantized(precision.gemm) ? Precision::bf16 : precision.gemm;
  // Under --fp16 gradients are in fp16 unless the flag is given; under --bf16 Megatron accumulates in fp32 by default.
  const bool half = in.given.has("--fp16") && !in.given.has("--accumulate-allreduce-grads-in-fp32");
  precision.gradients = half ? Precision::fp16 : Precision::fp32;
  read_format(in, "--main-grads-dtype", precision.gradients);
  if (in.given.has("--grad-reduce-in-bf16")) precision.gradients = Precision::bf16;
  read_format(in, "--main-params-dtype", precision.master_weights);
  Precision first = precision.optimizer_moments, second = precision.optimizer_moments;
  read_format(in, "--exp-avg-dtype", first);
  read_format(in, "--exp-avg-sq-dtype", second);
  precision.optimizer_moments = in.given.has("--exp-avg-dtype") ? first : second;
  if (first != second)
    in.note("--exp-avg-sq-dtype", fmt::format("both moments are priced as {}", to_string(precision.optimizer_moments)));
  const bool smaller = precision.optimizer_moments != Precision::fp32 || precision.master_weights != Precision::fp32;
  if (smaller && !in.given.has("--use-precision-aware-optimizer"))
    in.refuse("--use-precision-aware-optimizer", "states of the optimizer that are not FP32 need it");
  if (is_quantized(precision.gemm) && !in.given.has("--bf16") && !in.given.has("--fp16"))
    in.notes.push_back({0, "--bf16 is not given: what is not quantized is priced in 16 bits"});
  const std::string recipe = in.given.value("--fp8-recipe").value_or("delayed");
  if (precision.gemm == Precision::fp8_tensor) {
    precision.scaling = recipe == "delayed" ? "delayed" : "current";
    precision.weight_cast = "step";
  } else if (precision.gemm == Precision::fp8 && recipe != "blockwise") {
    in.note("--fp8-recipe", fmt::format("{} is priced like blockwise", recipe));
  }
  if (in.given.has("--fp8-param-gather") && in.given.has("--fp8-format")) precision.parameters = "fp8";
  if (in.given.has("--fp8-output-proj")) {
    if (precision.gemm != Precision::mxfp8) in.refuse("--fp8-output-proj", "it needs --fp8-recipe mxfp8");
    if (precision.gemm == Precision::mxfp8) precision.head = "mxfp8";
  }
  if (in.given.has("--fp8-dot-product-attention") && is_quantized(precision.gemm)) {
    precision.attention = precision.gemm == Precision::mxfp8 ? "mxfp8" : "fp8";
    if (precision.gemm == Precision::fp8)
      in.note("--fp8-dot-product-attention", "attention has no scales of blocks: one of each tensor is priced");
  }
}

void write_precision(const RuleWriter& out) {
  const auto& precision = out.plan.precision;
  Given& given = out.out;
  if (precision.gemm == Precision::bf16 || is_quantized(precision.gemm)) given.put_flag("--bf16");
  if (precision.gemm == Precision::fp16) given.put_flag("--fp16");
  if (precision.gemm == Precision::fp8 || precision.gemm == Precision::mxfp8) {
    given.put("--fp8-format", "e4m3");
    given.put("--fp8-recipe", precision.gemm == Precision::fp8 ? "blockwise" : "mxfp8");
  }
  if (precision.gemm == Precision::fp8_tensor) {
    given.put("--fp8-format", "hybrid");
    given.put("--fp8-recipe", precision.scaling == "delayed" ? "delayed" : "tensorwise");
  }
  if (precision.parameters == "fp8") given.put_flag("--fp8-param-gather");
  if (precision.head != "bf16" && precision.gemm == Precision::mxfp8) given.put_flag("--fp8-output-proj");
  if (precision.attention != "bf16" && is_quantized(precision.gemm)) given.put_flag("--fp8-dot-product-attention");
  if (precision.gemm == Precision::nvfp4) given.put("--fp4-format", "e2m1");
  if (precision.gradients == Precision::bf16) given.put_flag("--grad-reduce-in-bf16");
  if (precision.gradients == Precision::fp32 && precision.gemm == Precision::fp16) {
    given.put_flag("--accumulate-allreduce-grads-in-fp32");
  }
  const bool half_master = precision.master_weights == Precision::fp16;
  const bool small_moments = precision.optimizer_moments != Precision::fp32;
  if (!half_master && !small_moments) return;
  given.put_flag("--use-precision-aware-optimizer");
  if (half_master) given.put("--main-params-dtype", "fp16");
  if (!small_moments) return;
  given.put("--exp-avg-dtype", std::string(to_string(precision.optimizer_moments)));
  given.put("--exp-avg-sq-dtype", std::string(to_string(precision.optimizer_moments)));
}

// Pairs of Megatron's backends of attention and plumbline's kernels; the first pair of a kernel is written.
constexpr std::pair<std::string_view, std::string_view> backends[] = {
    {"auto", "fused"}, {"fused", "cudnn"}, {"flash", "flash2"}, {"unfused", "unfused"}, {"local", "unfused"}};

void read_attention(const RuleReader& in) {
  if (in.given.value("--transformer-impl") == "local") {
    in.plan.attention.kernel = "unfused";
    in.note("--transformer-impl", "local: kernels other than attention are priced as those of Transformer Engine");
  }
  if (in.given.has("--use-flash-attn")) in.plan.attention.kernel = "flash2";
  const auto named = in.given.value("--attention-backend");
  if (!named) return;
  const auto* found = std::ranges::find(backends, *named, &std::pair<std::string_view, std::string_view>::first);
  if (found == std::end(backends))
    in.note("--attention-backend", fmt::format("'{}' is no backend; {} is kept", *named, in.plan.attention.kernel));
  else
    in.plan.attention.kernel = found->second;
}

void write_attention(const RuleWriter& out) {
  const std::string& kernel = out.plan.attention.kernel;
  const auto* found = std::ranges::find(backends, kernel, &std::pair<std::string_view, std::string_view>::second);
  if (kernel != "fused" && found != std::end(backends)) out.out.put("--attention-backend", std::string(found->first));
}

// Without the argument Megatron-Core's loss works in place on FP32 logits
// (megatron/core/tensor_parallel/cross_entropy.py
// @00611e6e); Transformer Engine's stores the gradient over the logits, and linear is within the head's GEMM
// (megatron/core/fusions/fused_linear_cross_entropy.py @020c805b).
constexpr std::pair<std::string_view, std::string_view> fused_losses[] = {
    {"native", "fused"}, {"te", "fused_in_place"}, {"linear", "linear"}};

void read_loss(const RuleReader& in) {
  if (!in.given.has("--cross-entropy-loss-fusion")) return;
  const std::string named = in.given.value("--cross-entropy-fusion-impl").value_or("native");
  const auto* found = std::ranges::find(fused_losses, named, &std::pair<std::string_view, std::string_view>::first);
  in.plan.loss.kernel = found == std::end(fused_losses) ? "fused" : found->second;
  if (found == std::end(fused_losses))
    in.note("--cross-entropy-fusion-impl", fmt::format("'{}' is none of native, te, linear; native is priced", named));
  else if (named == "native")
    in.note("--cross-entropy-loss-fusion", "the FP32 logits that its native kernels keep are not in memory");
  else if (named == "linear")
    in.note("--cross-entropy-fusion-impl", "its kernels are for GPUs of compute capability 10, which is not checked");
}

void write_loss(const RuleWriter& out) {
  const std::string& kernel = out.plan.loss.kernel;
  const auto* found = std::ranges::find(fused_losses, kernel, &std::pair<std::string_view, std::string_view>::second);
  if (found == std::end(fused_losses)) return;
  out.out.put_flag("--cross-entropy-loss-fusion");
  if (kernel != "fused") out.out.put("--cross-entropy-fusion-impl", std::string(found->first));
}

// Pairs of Megatron's modules and plumbline's operators.
constexpr std::pair<std::string_view, std::string_view> modules[] = {
    {"core_attn", "core_attention"}, {"layernorm", "rmsnorm"}, {"mla_up_proj", "mla_up_projection"},
    {"moe_act", "swiglu"},           {"mlp", "mlp"},           {"moe", "moe"}};

void read_modules(const RuleReader& in) {
  std::vector<std::string> named = in.given.values("--recompute-modules");
  if (named.empty()) named = {"core_attn"};
  for (const std::string& name : named) {
    const auto* found = std::ranges::find(modules, name, &std::pair<std::string_view, std::string_view>::first);
    if (found == std::end(modules)) {
      in.note("--recompute-modules", fmt::format("'{}' is not recomputed: no operator of that name", name));
    } else {
      in.plan.recompute.operators.emplace_back(found->second);
    }
  }
}

void read_recompute(const RuleReader& in) {
  auto& recompute = in.plan.recompute;
  const std::string granularity = in.given.value("--recompute-granularity").value_or("");
  const bool full =
      granularity == "full" ||
      (granularity.empty() && (in.given.has("--recompute-method") || in.given.has("--checkpoint-activations")));
  if (full) {
    recompute.policy = "full";
    // TransformerConfig.__post_init__ of megatron/core/transformer/transformer_config.py.
    if (!granularity.empty() && !in.given.has("--recompute-method"))
      return in.refuse("--recompute-granularity", "full needs --recompute-method uniform or block");
    if (!granularity.empty() && !in.given.has("--recompute-num-layers"))
      return in.refuse("--recompute-granularity",
                       "full needs --recompute-num-layers N, in versions of 2022 1 by default");
    if (granularity.empty() && in.given.has("--recompute-method"))
      in.note("--recompute-method", "without a granularity all of a layer is recomputed, as in versions of 2021");
    if (in.given.value("--recompute-method") == "block")
      recompute.layers = in.number("--recompute-num-layers").value_or(1);
    else if (in.given.value("--recompute-num-layers").value_or("1") != "1")
      in.note("--recompute-num-layers", "inputs of every layer are kept in the prediction");
  } else if (granularity == "selective" || in.given.has("--recompute-activations")) {
    recompute.policy = "selective";
    read_modules(in);
  } else if (in.given.has("--moe-layer-recompute")) {
    recompute.policy = "selective";
    recompute.operators = {"moe"};
  }
}

void write_recompute(const RuleWriter& out) {
  const auto& recompute = out.plan.recompute;
  if (recompute.policy == "none") return;
  out.out.put("--recompute-granularity", recompute.policy);
  if (recompute.policy == "full") {
    out.out.put("--recompute-method", recompute.layers ? "block" : "uniform");
    out.out.put("--recompute-num-layers", std::to_string(recompute.layers.value_or(1)));
    return;
  }
  GivenArgument named;
  for (const std::string& name : recompute.operators) {
    for (const auto& [module, operators] : modules) {
      if (operators == name) named.values.emplace_back(module);
    }
  }
  if (!named.values.empty()) out.out.put("--recompute-modules", named);
}

}  // namespace

std::vector<Rule> rules() {
  return {{read_sharding, write_sharding},
          {read_batch, write_batch},
          {read_experts, write_experts},
          {read_dispatcher, write_dispatcher},
          {read_software, write_software},
          {read_precision, write_precision},
          {read_attention, write_attention},
          {read_loss, write_loss},
          {read_overlap, write_overlap},
          {read_recompute, write_recompute},
          schedule_rule(),
          {read_training, [](const RuleWriter&) {}},  // Megatron-LM has no argument for adapters
          {read_optimizer, write_optimizer},
          {read_rollout, [](const RuleWriter&) {}}};  // nor for what generates
}

Plan megatron_defaults() {
  Plan plan;
  plan.overlap.gradient_reduce = false;
  plan.precision.gemm = Precision::fp32;
  plan.loss.kernel = "unfused_in_place";
  return plan;
}

}  // namespace plumbline::model::megatron
