// accelerate's config.yaml, as `accelerate config` writes it: names of accelerate/utils/dataclasses.py.
#include <algorithm>

#include "model/configurations/detail/shared.h"
#include "model/plan/sharding_words.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow accelerate_keys[] = {
#include "model/configurations/detail/keys/accelerate.def"
};

void read_strategy(Draft& draft) {
  const std::string_view reshard_key = "fsdp_config.fsdp_reshard_after_forward";
  const std::string_view strategy_key = "fsdp_config.fsdp_sharding_strategy";
  const std::string reshard = draft.text(reshard_key).value_or("");
  const bool is_flag = reshard == "true" || reshard == "false" || reshard == "True" || reshard == "False";
  const std::string_view key = reshard.empty() || is_flag ? strategy_key : reshard_key;
  const std::string name = draft.text(key).value_or("FULL_SHARD");
  const auto all = sharding_strategies();
  const auto found =
      std::ranges::find_if(all, [&](const ShardingStrategy& one) { return one.name == name || one.number == name; });
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const ShardingStrategy& one : all) names.emplace_back(one.name);
    return draft.fail(key, fmt::format("'{}' is no sharding strategy", name), known_names(name, names));
  }
  const bool stated = draft.text(key).has_value();
  draft.set("parallelism.zero_stage", found->zero_stage, stated ? key : "FSDP");
  if (found->zero_stage == 3)
    draft.set("parallelism.reshard_after_forward",
              is_flag ? draft.flag(reshard_key).value_or(true) : found->reshard_after_forward,
              is_flag  ? reshard_key
              : stated ? key
                       : "FSDP");
  if (!found->within_node) return;
  const auto gpus = draft.value("cluster.gpus");
  const auto stated_machines = draft.integer("num_machines");
  const std::int64_t machines = stated_machines.value_or(1);
  constexpr std::int64_t usual = 8;
  if (!gpus) return;
  if (!stated_machines && *gpus > usual && *gpus % usual != 0)
    return draft.fail(stated ? key : strategy_key,
                      fmt::format("is within a machine, and {} GPUs are no machines of {}", *gpus, usual),
                      "add num_machines, or --set parallelism.shard_group=N");
  if (!stated_machines && *gpus > usual)
    return draft.assume("parallelism.shard_group", usual, "HYBRID_SHARD is within a machine, which has 8 GPUs");
  if (machines < 1 || *gpus % machines != 0)
    return draft.fail("num_machines", fmt::format("does not divide {} GPUs", *gpus));
  if (machines > 1) draft.set("parallelism.shard_group", *gpus / machines, strategy_key);
}

}  // namespace

void read_fsdp(Draft& draft, Precision gemm) {
  const auto replicas = draft.integer("parallelism_config.parallelism_config_dp_replicate_size");
  const auto shards = draft.integer("parallelism_config.parallelism_config_dp_shard_size");
  // Weights that are not of experts are not sharded over the ranks of axolotl's experts.
  const std::int64_t copies =
      bounded_product({replicas.value_or(1), draft.integer("expert_parallel_size").value_or(1)});
  if (shards && *shards > 0 && copies > 0 && !draft.given("cluster.gpus"))
    draft.set("cluster.gpus", bounded_product({*shards, copies, draft.model_parallel()}), "the product of the degrees");
  read_strategy(draft);
  if (gemm != Precision::fp32) {
    draft.set("precision.gradients", "fp32", "shards of FP32 parameters");
    draft.set("precision.gradient_reduce", to_string(gemm == Precision::fp16 ? gemm : Precision::bf16),
              "mixed_precision");
  }
  const auto data = draft.data_parallel();
  if (data && shards && bounded_product({*shards, copies}) != *data)
    return draft.fail("parallelism_config.parallelism_config_dp_shard_size",
                      fmt::format("{} shards x {} replicas are not the {} data-parallel ranks", *shards, copies, *data),
                      "the product of the degrees is the number of GPUs");
  if (shards && *shards <= 1 && draft.degree("context") == 1)
    draft.set("parallelism.zero_stage", std::int64_t{0}, "parallelism_config.parallelism_config_dp_shard_size");
  else if (copies > 1 && shards)
    draft.set("parallelism.shard_group", bounded_product({*shards, draft.degree("context")}),
              replicas ? "parallelism_config.parallelism_config_dp_replicate_size" : "expert_parallel_size");
  if (draft.flag("fsdp_config.fsdp_offload_params").value_or(false)) {
    draft.set("offload.optimizer", true, "fsdp_config.fsdp_offload_params");
    draft.not_modeled("fsdp_config.fsdp_offload_params", "parameters and gradients stay on the GPU");
  }
  // Accelerator.no_sync(), which the Trainer enters too, sums unsharded gradients over micro-batches.
  const bool each = draft.flag("accelerator_config.gradient_accumulation_kwargs.sync_each_batch").value_or(false);
  if (!each && draft.integer("gradient_accumulation_steps").value_or(1) > 1)
    draft.set("parallelism.reduce_after", "run", "gradient_accumulation_steps");
  const auto checkpointing = draft.flag("fsdp_config.fsdp_activation_checkpointing");
  if (checkpointing)
    draft.set("recompute.policy", *checkpointing ? "full" : "none", "fsdp_config.fsdp_activation_checkpointing");
  const std::string_view prefetch = "fsdp_config.fsdp_backward_prefetch";
  if (const auto word = draft.text(prefetch)) {
    draft.set("overlap.prefetch", std::int64_t{*word == "BACKWARD_PRE" || *word == "1" ? 1 : 0}, prefetch);
    if (*word == "BACKWARD_POST" || *word == "2")
      draft.not_modeled(prefetch, "the next unit is gathered when it is needed");
  }
  const std::string wrap = draft.text("fsdp_config.fsdp_auto_wrap_policy").value_or("TRANSFORMER_BASED_WRAP");
  if (wrap != "TRANSFORMER_BASED_WRAP") draft.not_modeled("fsdp_config.fsdp_auto_wrap_policy", "a unit is a layer");
}

bool refuse_shards(Draft& draft) {
  const std::string_view key = "parallelism_config.parallelism_config_dp_shard_size";
  const std::int64_t shards = draft.integer(key).value_or(1);
  if (shards > 1)
    draft.fail(key, fmt::format("{} shards need FSDP, which is not configured", shards),
               "add its section, or --set parallelism.zero_stage=0 and leave the key out");
  return shards <= 1;
}

namespace {

void read_megatron(Draft& draft) {
  const std::string prefix = "megatron_lm_config.megatron_lm_";
  if (const auto tensor = draft.integer(prefix + "tp_degree"))
    draft.set("parallelism.tensor", *tensor, prefix + "tp_degree");
  if (const auto stages = draft.integer(prefix + "pp_degree"))
    draft.set("parallelism.pipeline", *stages, prefix + "pp_degree");
  spread_evenly(draft);
  if (draft.degree("tensor") > 1 && draft.flag(prefix + "sequence_parallelism").value_or(false))
    draft.set("parallelism.sequence", true, prefix + "sequence_parallelism");
  if (draft.flag(prefix + "use_distributed_optimizer").value_or(false))
    draft.set("parallelism.zero_stage", std::int64_t{1}, prefix + "use_distributed_optimizer");
  if (draft.flag(prefix + "recompute_activations").value_or(false)) {
    draft.set("recompute.policy", "selective", prefix + "recompute_activations");
    draft.set("recompute.operators", std::vector<std::string>{"core_attention"}, prefix + "recompute_activations");
  }
  const auto norm = draft.number(prefix + "gradient_clipping");
  draft.set("optimizer.gradient_clipping", norm.value_or(1) > 0, prefix + "gradient_clipping");
}

Precision read_accelerate_precision(Draft& draft) {
  const std::string word = draft.text("mixed_precision").value_or("no");
  const bool none = word == "no" || word == "false" || word == "False";
  const auto named = none            ? Precision::fp32
                     : word == "fp8" ? Precision::fp8_tensor
                                     : parse_precision(word).value_or(Precision::fp8);
  if (named == Precision::fp8) draft.fail("mixed_precision", fmt::format("'{}' is none of no, fp16, bf16, fp8", word));
  set_precision(draft, named, "mixed_precision");
  if (word != "fp8") return named;
  const std::string backend = draft.text("fp8_config.backend").value_or("TE");
  draft.set("precision.scaling", backend == "AO" ? "current" : "delayed", "fp8_config.backend");
  if (backend != "TE" && backend != "AO") draft.not_modeled("fp8_config.backend", "FP8 GEMMs as Transformer Engine's");
  return named;
}

// Of the section for DeepSpeed; what it lacks has DeepSpeed's defaults.
constexpr ZeroKeys zero_keys{"deepspeed_config.zero_stage",           "deepspeed_config.offload_optimizer_device",
                             "deepspeed_config.offload_param_device", "deepspeed_config.gradient_clipping",
                             "deepspeed_config.overlap_comm",         "deepspeed_config.reduce_bucket_size",
                             "deepspeed_config.grad_accum_dtype",     "deepspeed_config.communication_data_type"};

Result<Configuration> read_accelerate(const Source& source) {
  auto read = TRY(read_yaml(source));
  TRY(add_deepspeed_file(source.path, "deepspeed_config.deepspeed_config_file", read));
  return read;
}

const KeyRow* row_of_section(std::string_view key) {
  constexpr std::string_view section = "deepspeed.";
  return key.starts_with(section) ? deepspeed_row(key.substr(section.size())) : nullptr;
}

void accelerate_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  if (draft.flag("use_cpu").value_or(false)) return draft.fail("use_cpu", "no GPU takes part");
  const bool filed = has_deepspeed_section(draft);
  if (const auto file = draft.text("deepspeed_config.deepspeed_config_file"); file && !filed)
    return draft.fail(
        "deepspeed_config.deepspeed_config_file", "the configuration is in another file",
        fmt::format("plumbline import deepspeed {} --gpus {}", *file, draft.text("num_processes").value_or("N")));
  if (const auto processes = draft.integer("num_processes")) draft.set("cluster.gpus", *processes, "num_processes");
  read_ulysses(in, "parallelism_config.parallelism_config_sp_size");
  const std::string type = draft.text("distributed_type").value_or("NO");
  const Precision gemm = read_accelerate_precision(draft);
  if (type == "FSDP") {
    read_fsdp(draft, gemm);
  } else if (type == "DEEPSPEED") {
    read_deepspeed_section_degrees(in);
    constexpr std::int64_t silent_stage = 2;
    read_zero(draft, filed ? kDeepspeedSection : zero_keys, filed ? 0 : silent_stage);
  } else if (type == "MEGATRON_LM") {
    read_megatron(draft);
  } else if (type == "MULTI_GPU" || type == "NO" || type == "MULTI_XPU") {
    if (!refuse_shards(draft)) return;
    draft.set("parallelism.zero_stage", std::int64_t{0}, "distributed_type");
  } else {
    return draft.fail("distributed_type", fmt::format("'{}' is not supported", type),
                      "FSDP, DEEPSPEED, MEGATRON_LM, MULTI_GPU, NO");
  }
  const std::string_view backend_key = "parallelism_config.parallelism_config_cp_backend";
  if (draft.text(backend_key) == "deepspeed" && draft.degree("context") > 1)
    draft.set("parallelism.context_method", "all-to-all", backend_key);
  else if (draft.integer("parallelism_config.parallelism_config_cp_size").value_or(1) > 1)
    draft.set("parallelism.context_method",
              draft.text("parallelism_config.parallelism_config_cp_comm_strategy").value_or("allgather") == "alltoall"
                  ? "ring"
                  : "all-gather",
              "parallelism_config.parallelism_config_cp_comm_strategy");
  if (type == "DEEPSPEED") read_zero_buffers(in, filed ? kDeepspeedSection : zero_keys, gemm);
  const std::string_view steps = type == "DEEPSPEED"     ? "deepspeed_config.gradient_accumulation_steps"
                                 : type == "MEGATRON_LM" ? "megatron_lm_config.megatron_lm_num_micro_batches"
                                                         : "gradient_accumulation_steps";
  if (filed)
    read_batch(draft, {"deepspeed.train_batch_size", "deepspeed.train_micro_batch_size_per_gpu",
                       "deepspeed.gradient_accumulation_steps"});
  else
    read_batch(draft, {"", "", steps});
  std::string backend =
      draft.text("dynamo_config.dynamo_backend").value_or(draft.text("dynamo_backend").value_or("NO"));
  const bool compiled = backend == "INDUCTOR" || backend == "inductor";
  draft.assume("stack.name",
               type == "MEGATRON_LM" ? "megatron-core-2025"
               : type == "DEEPSPEED" ? "deepspeed"
               : compiled            ? "torchtitan-compile"
                                     : "pytorch-fsdp-eager",
               "the nearest stack");
  draft.assume("recompute.policy", "none", "whether the model checkpoints activations is not in the file", "full");
}

}  // namespace

const KeyRow* accelerate_row(std::string_view key) {
  static const ConfigurationFormat format = accelerate();
  return format.row(key);
}

ConfigurationFormat accelerate() {
  return {"accelerate",      "accelerate",   &read_accelerate, {}, table_of(accelerate_keys),
          &accelerate_rules, &row_of_section};
}

// DeepSpeed's ds_config.json: names and defaults of its documentation (deepspeed.ai/docs/config-json).
namespace {

constexpr KeyRow deepspeed_keys[] = {
#include "model/configurations/detail/keys/deepspeed.def"
};

Precision read_deepspeed_gemm(Draft& draft) {
  const bool bf16 = draft.flag("bf16.enabled").value_or(false) || draft.flag("bfloat16.enabled").value_or(false);
  const bool fp16 = draft.flag("fp16.enabled").value_or(false);
  if (bf16 && fp16) draft.fail("fp16.enabled", "bf16 and fp16 are both enabled", "DeepSpeed takes one of them");
  if (bf16 || fp16) {
    set_precision(draft, bf16 ? Precision::bf16 : Precision::fp16, bf16 ? "bf16.enabled" : "fp16.enabled");
    return bf16 ? Precision::bf16 : Precision::fp16;
  }
  if (draft.flag("torch_autocast.enabled").value_or(false)) {
    const bool half = draft.text("torch_autocast.dtype").value_or("bfloat16").ends_with("float16") &&
                      !draft.text("torch_autocast.dtype").value_or("bfloat16").ends_with("bfloat16");
    set_precision(draft, half ? Precision::fp16 : Precision::bf16, "torch_autocast.enabled");
    return Precision::fp32;  // of the parameters
  }
  for (const char* section : {"bf16.enabled", "fp16.enabled"}) {
    const Entry* entry = draft.configuration().find(section);
    if (entry == nullptr || entry->value != "auto" || draft.given("precision.gemm")) continue;
    draft.fail(section, "is auto: the trainer decides, not the file", "--set precision.gemm=bf16 decides");
  }
  // Where the trainer decides, what is set decides what follows: gradients, buckets and messages.
  const auto asked = draft.word("precision.gemm");
  Precision gemm = Precision::fp32;
  if (asked && *asked != "fp32" && *asked != "tf32") gemm = *asked == "fp16" ? Precision::fp16 : Precision::bf16;
  set_precision(draft, gemm, asked ? "precision.gemm" : "neither bf16 nor fp16");
  return gemm;
}

void read_deepspeed_degrees(const RuleInput& in) {
  Draft& draft = in.draft;
  for (const char* key : {"tensor_parallel.autotp_size", "tensor_parallel.tp_size"})
    if (const auto degree = draft.integer(key); degree && *degree > 0) draft.set("parallelism.tensor", *degree, key);
  read_ulysses(in, "sequence_parallel_size");
  if (const auto stages = draft.text("pipeline.stages"); stages && parse_number<std::int64_t>(*stages))
    draft.set("parallelism.pipeline", *parse_number<std::int64_t>(*stages), "pipeline.stages");
  spread_evenly(draft);
}

void deepspeed_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  read_deepspeed_degrees(in);
  const ZeroKeys keys{"zero_optimization.stage",
                      "zero_optimization.offload_optimizer.device",
                      "zero_optimization.offload_param.device",
                      "gradient_clipping",
                      "zero_optimization.overlap_comm",
                      "zero_optimization.reduce_bucket_size",
                      "data_types.grad_accum_dtype",
                      "communication_data_type"};
  const std::int64_t stage = read_zero(draft, keys, 0);
  if (draft.flag("zero_optimization.cpu_offload").value_or(false))
    draft.set("offload.optimizer", true, "zero_optimization.cpu_offload");
  read_zero_buffers(in, keys, read_deepspeed_gemm(draft));
  if (const auto shards = draft.integer("zero_optimization.mics_shard_size"); shards && *shards > 0)
    draft.set("parallelism.shard_group", *shards, "zero_optimization.mics_shard_size");
  read_batch(draft, {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"});
  const std::string optimizer = draft.text("optimizer.type").value_or("AdamW");
  if (optimizer == "Muon")
    draft.set("optimizer.kind", "muon", "optimizer.type");
  else if (optimizer != "Adam" && optimizer != "AdamW")
    draft.not_modeled("optimizer.type", "the optimizer is Adam");
  const std::string_view prefetched = "zero_optimization.stage3_prefetch_bucket_size";
  if (const Entry* entry = draft.configuration().find(prefetched); stage == 3 && entry != nullptr && !entry->is_null())
    draft.not_modeled(prefetched, "overlap.prefetch is one layer ahead");
  draft.assume("recompute.policy", "none", "whether the model checkpoints activations is in its code, not in the file",
               "full");
  draft.set("stack.name", "deepspeed", "ZeRO around eager PyTorch");
}

}  // namespace

const KeyRow* deepspeed_row(std::string_view key) {
  static const ConfigurationFormat format = deepspeed();
  return format.row(key);
}

ConfigurationFormat deepspeed() {
  return {"deepspeed", "DeepSpeed", &read_yaml, {}, table_of(deepspeed_keys), &deepspeed_rules};
}

}  // namespace plumbline::model::configurations
