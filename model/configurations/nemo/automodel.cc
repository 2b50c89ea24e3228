// NeMo AutoModel, which trains models of Hugging Face with FSDP2: sections and defaults of NVIDIA-NeMo/Automodel
// nemo_automodel/components/distributed/config.py @013d1137, mesh_utils.py @210f58f2 and pipelining/config.py @1265a650
// there, components/models/common/utils.py @005f6639 (backend), components/_peft/lora.py @03bd7a9b, recipes/
// _dist_setup.py @1a5b2ac3 and recipes/llm/train_ft.py @00a012b4 (local batch 1, clipping at 1).
#include <algorithm>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow automodel_rows[] = {
#include "model/configurations/detail/keys/automodel.def"
};

constexpr std::string_view kModelName = "model.pretrained_model_name_or_path";

// Returns a number that may be none, as degrees are that are not stated.
std::optional<std::int64_t> stated_degree(Draft& draft, std::string_view key) {
  const auto text = draft.text(key);
  const auto number = text && lower_case(*text) != "none" ? draft.integer(key) : std::nullopt;
  return number && *number > 0 ? number : std::nullopt;
}

// Returns "qwen3_moe" of "transformers.Qwen3MoeConfig".
std::string type_of_class(std::string_view target) {
  target = target.substr(target.rfind('.') + 1);
  std::string type;
  for (const char letter : target.substr(0, target.find("Config")))
    type += (letter >= 'A' && letter <= 'Z' && !type.empty() ? "_" : "") + std::string(1, letter);
  return lower_case(type);
}

void read_automodel_model(const RuleInput& in) {
  const std::string_view section = "model.config.";
  const std::string class_name = in.draft.text("model.config._target_").value_or("");
  if (in.draft.text("model.config.num_hidden_layers"))
    return use_section(in, section, in.draft.text("model.config.model_type").value_or(type_of_class(class_name)));
  read_named_model(in, kModelName);
  const std::string target = in.draft.text("model._target_").value_or("");
  if (contains(target, "ImageTextToText") || contains(target, "Multimodal"))
    in.draft.not_modeled("model._target_", "the model has no image encoder");
}

// Returns ddp, fsdp2, or one of the names of Megatron's FSDP.
std::string strategy_of(const Draft& draft) {
  const std::string manager = draft.text("distributed._target_").value_or("");  // of releases before
  return contains(manager, "DDP")            ? "ddp"
         : contains(manager, "MegatronFSDP") ? "megatron_fsdp"
                                             : lower_case(draft.text("distributed.strategy").value_or("fsdp2"));
}

// Sets the GPUs where the file decides them, and what is sharded: experts lie over data, context and tensor ranks.
void read_automodel_mesh(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::int64_t others = draft.model_parallel();
  if (const auto data = stated_degree(draft, "distributed.dp_size"))
    draft.set("cluster.gpus", bounded_product({*data, others}), "distributed.dp_size x the other degrees");
  constexpr std::int64_t usual_tasks = 8;
  if (const auto nodes = draft.integer("slurm.nodes"))
    draft.set("cluster.gpus", bounded_product({*nodes, draft.integer("slurm.ntasks_per_node").value_or(usual_tasks)}),
              "slurm.nodes x slurm.ntasks_per_node");
  if (draft.degree("tensor") > 1)
    draft.set("parallelism.sequence", draft.flag("distributed.sequence_parallel").value_or(false),
              "distributed.sequence_parallel");
  const auto data = draft.data_parallel();
  if (draft.given("cluster.gpus") && !data)
    return draft.fail("", fmt::format("the GPUs are no multiple of tensor x context x pipeline = {}", others),
                      "--gpus states the GPUs");
  if (!data) return;
  const std::string strategy = strategy_of(draft);
  if (strategy == "ddp") return draft.set("parallelism.zero_stage", std::int64_t{0}, "distributed.strategy");
  if (strategy != "fsdp2")
    return draft.set("parallelism.zero_stage", draft.integer("distributed.zero_dp_strategy").value_or(3),
                     "distributed.zero_dp_strategy");
  const std::int64_t replicas = stated_degree(draft, "distributed.dp_replicate_size").value_or(1);
  if (*data % replicas != 0)
    return draft.fail("distributed.dp_replicate_size",
                      fmt::format("{} data-parallel ranks are no multiple of {} replicas", *data, replicas));
  const std::int64_t sharded = bounded_product({*data / replicas, draft.degree("context")});
  if (sharded == 1) return draft.set("parallelism.zero_stage", std::int64_t{0}, "nothing is sharded");
  draft.set("parallelism.zero_stage", std::int64_t{3}, "distributed.strategy");
  if (replicas > 1) draft.set("parallelism.shard_group", sharded, "distributed.dp_replicate_size");
  const bool experts = draft.degree("expert") > 1;
  const std::string_view key = experts ? "distributed.moe.reshard_after_forward" : "distributed.reshard_after_forward";
  draft.set("parallelism.reshard_after_forward", draft.flag(key).value_or(!experts && draft.degree("pipeline") == 1),
            key);
}

// Returns the key that compiles the layers; empty where none does.
std::string_view compiled_by(Draft& draft) {
  for (const std::string_view key : {"compile.enabled", "distributed.enable_compile"})
    if (draft.flag(key).value_or(false)) return key;
  return {};
}

// Stages are as many as layers_per_stage needs, in whole numbers for each rank (calculate_virtual_stages() of
// components/distributed/pipelining/functional.py @00f40419); the first ones have a layer more.
void read_automodel_pipeline(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::int64_t ranks = draft.degree("pipeline");
  if (ranks <= 1) return;
  const auto each_rank = read_torch_schedule(draft, "distributed.pipeline.pp_schedule", compiled_by(draft));
  const auto layers = in.layers();
  if (!each_rank || !layers) return;
  const std::string_view key = "distributed.pipeline.layers_per_stage";
  const std::string_view rounding = "distributed.pipeline.round_virtual_stages_to_pp_multiple";
  std::int64_t stages = bounded_product({ranks, *each_rank});
  if (const auto each = draft.integer(key); each && *each > 0) {
    stages = ceil_div(*layers, *each);
    const std::string round = draft.text(rounding).value_or("");
    if (stages % ranks != 0 && round.empty())
      return draft.fail(key, fmt::format("gives {} stages, which do not divide over {} ranks", stages, ranks),
                        "round_virtual_stages_to_pp_multiple rounds them up or down");
    stages = round == "up" ? ceil_div(stages, ranks) * ranks : stages / ranks * ranks;
  }
  const bool interleaved = draft.word("schedule.kind") == "interleaved";
  constexpr std::int64_t most_stages = 65'536;
  if (stages > std::min(*layers, most_stages) || stages < 1 || (!interleaved && stages != ranks * *each_rank))
    return draft.fail(key, fmt::format("gives {} stages on {} ranks to {} layers", stages, ranks, *layers));
  if (interleaved) draft.set("schedule.virtual_stages", stages / ranks, key);
  draft.set("schedule.layers_per_stage", split_with_ends(*layers, stages, 0, 0), "layers are spread evenly");
}

void read_automodel_batch(Draft& draft) {
  const std::string_view pack = "packed_sequence.packed_sequence_size",
                         micro_key = "distributed.pipeline.pp_microbatch_size";
  const auto packed = draft.integer(pack);
  const std::string_view length_key = packed && *packed > 0 ? pack : "dataset.seq_length";
  if (const auto length = draft.integer(length_key)) draft.set("batch.sequence_length", *length, length_key);
  if (length_key == pack)
    draft.note(Note::Kind::assumed, pack,
               "assumed: a sample fills its pack; --set batch.document_length=N states its length");
  const std::int64_t local = draft.integer("step_scheduler.local_batch_size").value_or(1);
  const bool pipeline = draft.degree("pipeline") > 1;
  const std::int64_t micro = pipeline ? draft.integer(micro_key).value_or(1) : local;
  draft.set("batch.micro_batch_size", micro, pipeline ? micro_key : "step_scheduler.local_batch_size");
  const std::string_view global_key = "step_scheduler.global_batch_size";
  const auto global = draft.integer(global_key);
  const auto data = draft.data_parallel();
  if (!global) return;
  draft.set("batch.global_batch_size", *global, global_key);
  const std::int64_t once = bounded_product({local, data.value_or(1)});
  if (local < 1 || micro < 1 || local % micro != 0 || (data && *global % once != 0))
    return draft.fail(
        global_key,
        fmt::format("{} is no multiple of local batch {} x data-parallel degree {}", *global, local, data.value_or(1)),
        fmt::format("a local batch is a multiple of the micro-batch, {}", micro));
  if (!pipeline && data && *global > once) read_deferred_reduction(draft, "distributed.defer_fsdp_grad_sync");
  if (pipeline && data && *global > once)
    draft.not_modeled(global_key, "the pipeline drains after each local batch, here once a step");
  read_steps(draft, "step_scheduler.max_steps");
}

// Parameters are stored, and updated, in the format of the model: Adam's moments have it too, and gradients. FSDP2
// computes in BF16 and reduces in FP32; FSDP2Manager of releases before reduced in BF16 (components/distributed/
// fsdp2.py @05656796). A policy that is stated has what PyTorch's has: no format of its own, and reductions in that of
// the computation. "auto", the default, is BF16 (from_config() of _transformers/auto_model.py @004386c5).
void read_automodel_precision(Draft& draft) {
  const std::string_view param = "distributed.mp_policy.param_dtype", reduce = "distributed.mp_policy.reduce_dtype";
  const auto format = [](std::string word) {
    if (word.starts_with("torch.")) word.erase(0, std::string_view("torch.").size());
    return number_format(word);
  };
  const std::string_view te = "model.backend.te_fp8.recipe";
  const std::string scaled = draft.text(te).value_or("");
  const bool torchao = draft.flag("fp8.enabled").value_or(draft.text("fp8.recipe_name").has_value());
  const std::string_view key = draft.text("model.dtype") ? "model.dtype" : "model.torch_dtype";
  const std::string stored = format(draft.text(key).value_or("bf16")), strategy = strategy_of(draft);
  const bool fsdp2 = strategy == "fsdp2",
             older = contains(draft.text("distributed._target_").value_or(""), "FSDP2Manager");
  const bool policy = draft.text("distributed.mp_policy._target_") || draft.text(param) || draft.text(reduce);
  const std::string gemm = fsdp2 ? format(draft.text(param).value_or(policy ? stored : "bf16")) : stored;
  const bool wide = strategy != "ddp" && draft.flag("distributed.grad_reduce_in_fp32").value_or(false);
  const std::string reduced = fsdp2  ? format(draft.text(reduce).value_or(policy || older ? gemm : "fp32"))
                              : wide ? "fp32"
                                     : stored;
  set_precision(draft, plain_precision(gemm), param);
  if (torchao) draft.set("precision.gemm", "fp8_tensor", "fp8.enabled");
  if (torchao && draft.text("fp8.recipe_name").value_or("tensorwise") != "tensorwise")
    draft.set("precision.scaling", "row", "fp8.recipe_name");
  if (!scaled.empty())
    draft.set("precision.gemm", scaled == "mxfp8" ? scaled : scaled == "block" ? "fp8" : "fp8_tensor", te);
  if (contains(draft.text("model.backend.experts").value_or(""), "mxfp8"))
    draft.set("precision.experts", "mxfp8", "model.backend.experts");
  const bool preserved = !fsdp2 && draft.flag("distributed.preserve_fp32_weights").value_or(false);
  std::string master = preserved ? "fp32" : stored, moments = master;
  const std::string optimizer = draft.text("optimizer._target_").value_or("torch.optim.AdamW");
  if (contains(optimizer, "FusedAdam")) {
    if (draft.flag("optimizer.master_weights").value_or(false)) master = "fp32";
    moments = format(draft.text("optimizer.exp_avg_dtype").value_or("float32"));
  } else if (lower_case(optimizer).ends_with("muon")) {
    draft.set("optimizer.kind", "muon", "optimizer._target_");
  } else if (!optimizer.ends_with("Adam") && !optimizer.ends_with("AdamW")) {
    draft.not_modeled("optimizer._target_", "the optimizer is Adam");
  }
  draft.set("precision.gradients", stored, key);
  draft.set("precision.gradient_reduce", reduced, reduce);
  draft.set("precision.master_weights", master, master == stored ? key : "optimizer.master_weights");
  draft.set("precision.optimizer_moments", moments, moments == stored ? key : "optimizer.exp_avg_dtype");
}

// LoRA matches all projections unless modules are named (components/_peft/module_matcher.py @0c85dc12).
void read_automodel_adapters(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view key = "peft.target_modules";
  const std::string target = draft.text("peft._target_").value_or("");
  if (target.empty()) return;
  if (!contains(lower_case(target), "lora") && refuse_adapter(draft, "peft._target_", target)) return;
  const bool four = draft.flag("quantization.load_in_4bit").value_or(false);
  draft.set("training.method", four ? "qlora" : "lora", four ? "quantization.load_in_4bit" : "peft._target_");
  constexpr std::int64_t silent = 8;
  draft.set("training.rank", draft.integer("peft.dim").value_or(silent), "peft.dim");
  const std::vector<std::string> modules = draft.list(key);
  const bool all = modules.empty() || std::ranges::find(modules, "*_proj") != modules.end();
  if (all) return draft.set("training.targets", "all-linear", modules.empty() ? "peft.match_all_linear" : key);
  read_adapter_layers(in, key);
}

void read_automodel_recompute(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view key = "distributed.activation_checkpointing";
  const std::string mode = lower_case(draft.text(key).value_or("false"));
  if (mode != "selective")
    return draft.set("recompute.policy", mode == "full" || draft.flag(key).value_or(false) ? "full" : "none", key);
  draft.set("recompute.policy", "selective", key);
  if (!draft.given("recompute.operators")) keep_second_gemms(in, key, "activation_checkpointing = selective");
}

void read_automodel_rest(const RuleInput& in) {
  Draft& draft = in.draft;
  draft.set("stack.name", compiled_by(draft).empty() ? "pytorch-fsdp-eager" : "torchtitan-compile", "compile.enabled");
  if (draft.flag("distributed.enable_async_tensor_parallel").value_or(false))
    draft.set("overlap.tensor", draft.degree("tensor") > 1, "distributed.enable_async_tensor_parallel");
  if (draft.text("distributed.offload_policy") || draft.text("distributed.offload_policy._target_")) {
    draft.set("offload.optimizer", true, "distributed.offload_policy");
    draft.not_modeled("distributed.offload_policy", "parameters and gradients stay on the GPU");
  }
  const std::string attention = draft.text("model.backend.attn").value_or("");
  // Transformer Engine's attention, default of models with experts, sends in a ring (apply_cp() of components/moe/
  // parallelizer.py @005f6639), PyTorch's gathers (make_cp_batch_and_ctx() of components/distributed/cp_utils.py
  // @00444ae0).
  if (draft.degree("context") > 1)
    draft.set("parallelism.context_method",
              attention == "te" || (attention.empty() && in.has_experts()) ? "ring" : "all-gather",
              "model.backend.attn");
  const std::string kernel = draft.text("model.attn_implementation").value_or("");
  if (attention == "flex" || contains(kernel, "flex"))
    draft.set("attention.kernel", "triton", attention == "flex" ? "model.backend.attn" : "model.attn_implementation");
  else if (attention.empty() && kernel == "flash_attention_2")
    draft.set("attention.kernel", "flash2", "model.attn_implementation");
  if (draft.degree("expert") > 1) {
    const auto older = draft.flag("model.backend.enable_deepep");
    const std::string_view key = older ? "model.backend.enable_deepep" : "model.backend.dispatcher";
    const std::string sender = older ? (*older ? "deepep" : "torch") : draft.text(key).value_or("deepep");
    draft.set("stack.dispatcher", sender == "torch" ? "allgather" : sender == "hybridep" ? sender : "deepep", key);
    if (sender != "torch" && sender != "hybridep" && sender != "deepep")
      draft.not_modeled(key, "experts are sent by DeepEP");
  }
  const std::string loss = draft.text("loss_fn._target_").value_or("");
  if (contains(loss, "FusedLinear")) draft.set("loss.kernel", "linear", "loss_fn._target_");
  if (contains(loss, "TEParallel")) draft.set("loss.kernel", "fused", "loss_fn._target_");
  draft.set("optimizer.gradient_clipping", draft.number("clip_grad_norm.max_norm").value_or(1) > 0,
            "clip_grad_norm.max_norm");
}

void automodel_rules(const RuleInput& in) {
  read_automodel_model(in);
  read_automodel_mesh(in);
  read_automodel_pipeline(in);
  read_automodel_batch(in.draft);
  read_automodel_precision(in.draft);
  read_automodel_adapters(in);
  read_automodel_recompute(in);
  read_automodel_rest(in);
}

}  // namespace

ConfigurationFormat automodel() {
  return {"automodel",
          "NeMo AutoModel",
          &read_yaml,
          {{"model.config.pretrained_model_name_or_path", kModelName},
           {"model.config", kModelName},
           {"dataset.seq_len", "dataset.seq_length"},
           {"autopipeline.", "distributed.pipeline."},
           {"parallelizer.activation_checkpointing", "distributed.activation_checkpointing"},
           {"parallelizer.", "distributed.moe."}},
          table_of(automodel_rows),
          &automodel_rules};
}

}  // namespace plumbline::model::configurations
