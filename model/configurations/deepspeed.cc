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
