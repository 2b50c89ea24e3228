// DeepSpeed's ds_config.json: names and defaults of its documentation (deepspeed.ai/docs/config-json).
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow deepspeed_keys[] = {
    {"train_batch_size", rule, "batch.global_batch_size", "micro-batch x accumulation x data-parallel ranks, checked"},
    {"train_micro_batch_size_per_gpu", rule, "batch.micro_batch_size", "default: batch over ranks and accumulation"},
    {"gradient_accumulation_steps", rule, "batch.global_batch_size", "default 1"},
    {"gradient_clipping", rule, "optimizer.gradient_clipping", "above 0: true; default false"},
    {"bf16.enabled", rule, "precision.gemm", "bf16"},
    {"bfloat16.enabled", rule, "precision.gemm", "bf16"},
    {"fp16.enabled", rule, "precision.gemm", "fp16; neither: fp32"},
    {"torch_autocast.enabled", rule, "precision.gemm", "with its dtype"},
    {"torch_autocast.dtype", rule, "precision.gemm", "bfloat16 (default), float16"},
    {"data_types.grad_accum_dtype", rule, "precision.gradients", "default: that of the GEMMs; bf16 without ZeRO: fp32"},
    {"communication_data_type", rule, "precision.gradient_reduce", "fp16, bf16, fp32"},
    {"zero_optimization.stage", rule, "parallelism.zero_stage", "default 0"},
    {"zero_optimization.overlap_comm", rule, "overlap.gradient_reduce",
     "and overlap.parameter_gather of stage 3; default: stage 3"},
    {"zero_optimization.reduce_bucket_size", rule, "overlap.gradient_bucket_bytes",
     "elements, times the bytes of a gradient; default 5e8"},
    {"zero_optimization.offload_optimizer.device", rule, "offload.optimizer", "cpu; nvme is priced as cpu"},
    {"zero_optimization.cpu_offload", rule, "offload.optimizer", "the older name"},
    {"zero_optimization.offload_param.device", rule, "", "parameters stay on the GPU"},
    {"zero_optimization.mics_shard_size", rule, "parallelism.shard_group", "ranks of a group"},
    {"tensor_parallel.autotp_size", rule, "parallelism.tensor", "the value"},
    {"tensor_parallel.tp_size", rule, "parallelism.tensor", "the older name"},
    {"sequence_parallel_size", rule, "parallelism.context",
     "Ulysses' all-to-all is priced as context_method all-gather"},
    {"pipeline.stages", rule, "parallelism.pipeline", "a number; else --set"},
    {"optimizer.type", rule, "", "Adam and AdamW are priced"},
    {"zero_optimization.zero_hpz_partition_size", not_modeled, "", "parameters are gathered from all ranks"},
    {"zero_optimization.zero_quantized_weights", not_modeled, "", "parameters are gathered in the format of the GEMMs"},
    {"zero_optimization.zero_quantized_gradients", not_modeled, "", "gradients are sent in precision.gradient_reduce"},
    {"zero_optimization.offload_optimizer.ratio", not_modeled, "", "all states wait in host memory"},
    {"zero_optimization.stage3_prefetch_bucket_size", rule, "", "overlap.prefetch is one unit ahead"},
    {"activation_checkpointing.cpu_checkpointing", not_modeled, "",
     "offload.activations is the share that waits on the host"},
    {"activation_checkpointing.partition_activations", not_modeled, "", "kept inputs of layers are not divided"},
    {"amp.enabled", not_modeled, "", "precision.gemm is fp32 without bf16 or fp16"},
    {"sparse_attention.*", not_modeled, "", "attention sees the whole sequence"},
    {"compression_training.*", not_modeled, "", "nothing is compressed"},
    {"elasticity.enabled", not_modeled, "", "GPUs and batch are those that are stated"},
    {"progressive_layer_drop.enabled", not_modeled, "", "every step has all layers"},
    {"compile.deepcompile", not_modeled, "", "gathers run one unit ahead"},
    {"wall_clock_breakdown", not_modeled, "", "its synchronisations are not priced"},
    {"sparse_gradients", not_modeled, "", "gradients of embeddings are dense"},
};

constexpr KeyGroup deepspeed_groups[] = {
    {not_modeled, "every step has the whole sequence", "data_efficiency.* curriculum_learning.enabled"},
    {no_cost, "", R"(
zero_optimization.* activation_checkpointing.* amp.* elasticity.* curriculum_learning.* progressive_layer_drop.*
compile.* memory_breakdown prescale_gradients gradient_predivide_factor optimizer.* scheduler.* fp16.* bf16.*
torch_autocast.* pipeline.* tensor_parallel.* aio.* autotuning.* checkpoint.* comms_logger.* csv_monitor.*
flops_profiler.* monitor_config.* tensorboard.* wandb.* dump_state steps_per_print zero_allow_untested_optimizer
zero_force_ds_cpu_optimizer disable_allgather dataloader_drop_last seed use_data_before_expert_parallelism
)"},
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
  set_precision(draft, Precision::fp32, "neither bf16 nor fp16");
  return Precision::fp32;
}

void read_deepspeed_degrees(Draft& draft) {
  for (const char* key : {"tensor_parallel.autotp_size", "tensor_parallel.tp_size"})
    if (const auto degree = draft.integer(key); degree && *degree > 0) draft.set("parallelism.tensor", *degree, key);
  if (const auto degree = draft.integer("sequence_parallel_size"); degree && *degree > 1) {
    draft.set("parallelism.context", *degree, "sequence_parallel_size");
    draft.set("parallelism.context_method", "all-gather", "sequence_parallel_size");
    draft.not_modeled("sequence_parallel_size", "keys and values are gathered; Ulysses exchanges heads by all-to-all");
  }
  if (const auto stages = draft.text("pipeline.stages"); stages && parse_number<std::int64_t>(*stages))
    draft.set("parallelism.pipeline", *parse_number<std::int64_t>(*stages), "pipeline.stages");
  spread_evenly(draft);
}

void deepspeed_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  read_deepspeed_degrees(draft);
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
  read_zero_buffers(draft, keys, read_deepspeed_gemm(draft));
  if (const auto shards = draft.integer("zero_optimization.mics_shard_size"); shards && *shards > 0)
    draft.set("parallelism.shard_group", *shards, "zero_optimization.mics_shard_size");
  read_batch(draft, {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"});
  const std::string optimizer = draft.text("optimizer.type").value_or("AdamW");
  if (optimizer != "Adam" && optimizer != "AdamW") draft.not_modeled("optimizer.type", "the optimizer is Adam");
  if (stage == 3 && draft.text("zero_optimization.stage3_prefetch_bucket_size"))
    draft.not_modeled("zero_optimization.stage3_prefetch_bucket_size", "overlap.prefetch is one layer ahead");
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
  return {"deepspeed", "DeepSpeed", &read_yaml, {}, table_of(deepspeed_keys, deepspeed_groups), &deepspeed_rules};
}

}  // namespace plumbline::model::configurations
