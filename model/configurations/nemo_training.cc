// How a NeMo recipe trains: precision, sharding, recomputation, dispatch and the length of the run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

Precision quantized(const std::string& recipe) {
  if (recipe.find("mxfp8") != std::string::npos) return Precision::mxfp8;
  if (recipe.find("nvfp4") != std::string::npos) return Precision::nvfp4;
  return recipe.find("block") != std::string::npos || recipe.find("subchannel") != std::string::npos
             ? Precision::fp8
             : Precision::fp8_tensor;
}

void read_nemo_precision(Draft& draft) {
  const std::string bridge = draft.text("mixed_precision").value_or("");
  const std::string word = draft.text("precision.precision").value_or(draft.text("trainer.precision").value_or(bridge));
  Precision gemm = word.starts_with("16") || word.starts_with("fp16") ? Precision::fp16 : Precision::bf16;
  if (word.starts_with("32") || word == "fp32") gemm = Precision::fp32;
  std::string_view origin = draft.text("precision.precision") ? "precision.precision"
                            : bridge.empty()                  ? "trainer.precision"
                                                              : "mixed_precision";
  if (word.empty()) draft.note(Note::Kind::assumed, "", "assumed: bf16: the file states no precision");
  for (const std::string section : {"precision.", "model."}) {
    const auto fp8 = draft.text(section + "fp8");
    if (!fp8 || *fp8 == "false" || *fp8 == "False") continue;
    gemm = quantized(draft.text(section + "fp8_recipe").value_or("delayed"));
    origin = section == "precision." ? "precision.fp8" : "model.fp8";
    if (gemm == Precision::fp8_tensor && draft.text(section + "fp8_recipe").value_or("delayed") == "delayed")
      draft.set("precision.scaling", "delayed", origin);
  }
  if (bridge.find("fp8") != std::string::npos || bridge.find("nvfp4") != std::string::npos) gemm = quantized(bridge);
  if (bridge.find("fp8_delayed") != std::string::npos) draft.set("precision.scaling", "delayed", origin);
  set_precision(draft, gemm, origin);
  for (const std::string section : {"precision.", "mixed_precision.", "model."})
    if (is_quantized(gemm) && draft.flag(section + "fp8_dot_product_attention").value_or(false))
      draft.set("precision.attention", gemm == Precision::mxfp8 ? "mxfp8" : "fp8",
                section == "model." ? "model.fp8_dot_product_attention" : section + "fp8_dot_product_attention");
  // Where there is a plugin or recipe of precision, it decides over the section of DDP, with FP32 as its default.
  const bool decides =
      !bridge.empty() || draft.text("precision.precision") || draft.text("precision.grad_reduce_in_fp32");
  const std::string_view reduce = decides ? "precision.grad_reduce_in_fp32" : "ddp.grad_reduce_in_fp32";
  const bool wide = draft.flag(reduce).value_or(decides) || gemm == Precision::fp32;
  draft.set("precision.gradients", wide ? "fp32" : gemm == Precision::fp16 ? "fp16" : "bf16", reduce);
}

void read_sharding(Draft& draft) {
  const bool distributed = draft.flag("ddp.use_distributed_optimizer").value_or(false) ||
                           draft.flag("optimizer.use_distributed_optimizer").value_or(false) ||
                           draft.text("model.optim.name") == "distributed_fused_adam";
  std::int64_t stage = distributed ? 1 : 0;
  const std::string strategy = draft.text("ddp.data_parallel_sharding_strategy").value_or("no_shard");
  if (draft.flag("ddp.use_megatron_fsdp").value_or(false) || draft.flag("ddp.use_custom_fsdp").value_or(false))
    stage = strategy == "optim_grads_params" ? 3 : strategy == "optim_grads" ? 2 : strategy == "optim" ? 1 : 0;
  draft.set("parallelism.zero_stage", stage, stage == 0 ? "no distributed optimizer" : "distributed optimizer, FSDP");
  draft.set("overlap.gradient_reduce", draft.flag("ddp.overlap_grad_reduce").value_or(false),
            "ddp.overlap_grad_reduce");
  draft.set("overlap.parameter_gather", draft.flag("ddp.overlap_param_gather").value_or(false),
            "ddp.overlap_param_gather");
  constexpr double fewest = 40e6, each = 1e6;
  const double parameters =
      draft.number("ddp.bucket_size")
          .value_or(std::max(fewest,
                             each * static_cast<double>(draft.data_parallel().value_or(1) * draft.degree("context"))));
  draft.set("overlap.gradient_bucket_bytes", parameters * (draft.word("precision.gradients") == "fp32" ? 4 : 2),
            "ddp.bucket_size");
}

constexpr std::pair<std::string_view, std::string_view> nemo_modules[] = {
    {"core_attn", "core_attention"}, {"layernorm", "rmsnorm"}, {"mla_up_proj", "mla_up_projection"},
    {"moe_act", "swiglu"},           {"mlp", "mlp"},           {"moe", "moe"}};

void read_nemo_recompute(Draft& draft) {
  const bool first = !draft.text("model.recompute_granularity");
  const std::string prefix = first ? "model.activations_checkpoint_" : "model.recompute_";
  const std::string granularity = draft.text(prefix + "granularity").value_or("none");
  draft.set("recompute.policy", granularity, prefix + "granularity");
  if (granularity == "full" && draft.text(prefix + "method") == "block")
    if (const auto layers = draft.integer(prefix + "num_layers"))
      draft.set("recompute.layers", *layers, prefix + "num_layers");
  if (granularity != "selective") return;
  std::vector<std::string> operators, modules = draft.list("model.recompute_modules");
  if (modules.empty()) modules = {"core_attn"};
  for (const std::string& name : modules) {
    const auto* found = std::ranges::find(nemo_modules, name, &std::pair<std::string_view, std::string_view>::first);
    if (found == std::end(nemo_modules))
      draft.not_modeled("model.recompute_modules", fmt::format("'{}' is kept", name));
    else
      operators.emplace_back(found->second);
  }
  draft.set("recompute.operators", operators, "model.recompute_modules");
}

void read_nemo_rest(Draft& draft) {
  for (const char* key : {"model.tp_comm_overlap", "model.ub_tp_comm_overlap", "comm_overlap.tp_comm_overlap",
                          "trainer.callbacks[].tp_comm_overlap"})
    if (draft.flag(key).value_or(false) && draft.degree("tensor") > 1) draft.set("overlap.tensor", true, key);
  for (const char* key : {"trainer.gradient_clip_val", "optimizer.clip_grad"})
    if (const auto norm = draft.number(key)) draft.set("optimizer.gradient_clipping", *norm > 0, key);
  if (draft.degree("expert") > 1) {
    std::string dispatcher = draft.text("model.moe_token_dispatcher_type").value_or("allgather");
    if (dispatcher == "flex") dispatcher = draft.text("model.moe_flex_dispatcher_backend").value_or("deepep");
    draft.set("stack.dispatcher", dispatcher, "model.moe_token_dispatcher_type");
  }
  draft.set("stack.name", "megatron-core-2025", "NeMo runs Megatron-Core");
  for (const char* key : {"trainer.max_steps", "train.train_iters"}) {
    const auto steps = draft.integer(key), batch = draft.value("batch.global_batch_size"),
               length = draft.value("batch.sequence_length");
    if (steps && *steps > 0 && batch && length)
      draft.set("run.tokens", static_cast<double>(*steps) * static_cast<double>(*batch) * static_cast<double>(*length),
                key);
  }
}

}  // namespace

void read_nemo_training(Draft& draft) {
  read_nemo_precision(draft);
  read_sharding(draft);
  read_nemo_recompute(draft);
  read_nemo_rest(draft);
}

}  // namespace plumbline::model::configurations
