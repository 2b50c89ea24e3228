// Recipes of NeMo 2 and Megatron-Bridge as YAML, and megatron_gpt_config.yaml of NeMo 1. Fields of the model and of the
// parallel degrees are those of Megatron-Core's TransformerConfig and ModelParallelConfig.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/configurations/detail/shared.h"
#include "model/megatron/stages.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow nemo_rows[] = {
    {"trainer.num_nodes", rule, "cluster.gpus", "times devices"},
    {"trainer.devices", rule, "cluster.gpus", "GPUs of a node; -1 and auto: --gpus"},
    {"trainer.max_steps", rule, "run.tokens", "times global batch and sequence length"},
    {"train.train_iters", rule, "run.tokens", "times global batch and sequence length"},
    {"trainer.precision", rule, "precision.gemm", "bf16, bf16-mixed, 16, 16-mixed, 32"},
    {"precision.precision", rule, "precision.gemm", "the same of MegatronMixedPrecision"},
    {"precision.fp8", rule, "precision.gemm", "by the recipe"},
    {"precision.fp8_recipe", rule, "precision.gemm",
     "delayed (default), tensorwise: fp8_tensor, blockwise: fp8, mxfp8"},
    {"precision.fp8_dot_product_attention", rule, "precision.attention", "mxfp8 by that recipe, else fp8"},
    {"mixed_precision.fp8_dot_product_attention", rule, "precision.attention", "the same of Megatron-Bridge"},
    {"model.fp8_dot_product_attention", rule, "precision.attention", "the same"},
    {"model.fp8", rule, "precision.gemm", "by the recipe"},
    {"model.fp8_recipe", rule, "precision.gemm", "as precision.fp8_recipe"},
    {"mixed_precision", rule, "precision.gemm", "Megatron-Bridge's names: bf16_mixed, bf16_with_mxfp8_mixed, ..."},
    {"config_class", rule, "model.config", "a shipped model of the class, else the fields below"},
    {"train.micro_batch_size", value, "batch.micro_batch_size", "the value"},
    {"train.global_batch_size", value, "batch.global_batch_size", "the value"},
    {"train.seq_length", value, "batch.sequence_length", "the value"},
    {"model.micro_batch_size", value, "batch.micro_batch_size", "of NeMo 1"},
    {"model.global_batch_size", value, "batch.global_batch_size", "of NeMo 1"},
    {"model.encoder_seq_length", value, "batch.sequence_length", "of NeMo 1"},
    {"model.seq_length", rule, "batch.sequence_length", "where the data does not state it"},
    {"model.tensor_model_parallel_size", value, "parallelism.tensor", "the value"},
    {"model.pipeline_model_parallel_size", value, "parallelism.pipeline", "the value"},
    {"model.context_parallel_size", value, "parallelism.context", "the value"},
    {"model.expert_model_parallel_size", value, "parallelism.expert", "the value"},
    {"model.expert_tensor_parallel_size", rule, "parallelism.expert_tensor", "default: the tensor degree, of experts"},
    {"model.sequence_parallel", rule, "parallelism.sequence", "with a tensor degree"},
    {"model.cp_comm_type", rule, "parallelism.context_method", "p2p (default): ring, all_gather: all-gather"},
    {"model.virtual_pipeline_model_parallel_size", rule, "schedule.virtual_stages",
     "above 1: schedule.kind interleaved"},
    {"model.account_for_embedding_in_pipeline_split", rule, "schedule.layers_per_stage",
     "the first stage has a layer fewer"},
    {"model.account_for_loss_in_pipeline_split", rule, "schedule.layers_per_stage", "the last stage has a layer fewer"},
    {"model.num_layers_in_first_pipeline_stage", rule, "schedule.layers_per_stage",
     "of the first rank; the others share evenly"},
    {"model.num_layers_in_last_pipeline_stage", rule, "schedule.layers_per_stage",
     "of the last rank; the others share evenly"},
    {"model.pipeline_model_parallel_layout", rule, "schedule.layers_per_stage",
     "layers t counted between bars, with *N and ( )"},
    {"ddp.use_distributed_optimizer", rule, "parallelism.zero_stage", "1"},
    {"optimizer.use_distributed_optimizer", rule, "parallelism.zero_stage", "1"},
    {"model.optim.name", rule, "parallelism.zero_stage", "distributed_fused_adam: 1"},
    {"ddp.use_megatron_fsdp", rule, "parallelism.zero_stage", "with data_parallel_sharding_strategy"},
    {"ddp.use_custom_fsdp", rule, "parallelism.zero_stage", "the older name"},
    {"ddp.data_parallel_sharding_strategy", rule, "parallelism.zero_stage",
     "no_shard 0, optim 1, optim_grads 2, optim_grads_params 3"},
    {"ddp.grad_reduce_in_fp32", rule, "precision.gradients", "fp32, else bf16"},
    {"precision.grad_reduce_in_fp32", rule, "precision.gradients", "the same of NeMo 2, default true; it wins"},
    {"ddp.overlap_grad_reduce", rule, "overlap.gradient_reduce", "default false"},
    {"ddp.overlap_param_gather", rule, "overlap.parameter_gather", "default false"},
    {"ddp.bucket_size", rule, "overlap.gradient_bucket_bytes", "parameters, times the bytes of a gradient"},
    {"model.tp_comm_overlap", rule, "overlap.tensor", "with sequence parallelism"},
    {"model.ub_tp_comm_overlap", rule, "overlap.tensor", "of NeMo 1"},
    {"comm_overlap.tp_comm_overlap", rule, "overlap.tensor", "of Megatron-Bridge"},
    {"trainer.callbacks[].tp_comm_overlap", rule, "overlap.tensor", "of NeMo 2"},
    {"trainer.gradient_clip_val", rule, "optimizer.gradient_clipping", "above 0: true"},
    {"optimizer.clip_grad", rule, "optimizer.gradient_clipping", "above 0: true"},
    {"model.recompute_granularity", rule, "recompute.policy", "full or selective"},
    {"model.activations_checkpoint_granularity", rule, "recompute.policy", "of NeMo 1"},
    {"model.recompute_modules", rule, "recompute.operators", "default core_attn; names of docs/megatron.md"},
    {"model.recompute_method", rule, "recompute.layers", "block: recompute_num_layers of each stage"},
    {"model.recompute_num_layers", rule, "recompute.layers", "with block"},
    {"model.activations_checkpoint_method", rule, "recompute.layers", "of NeMo 1"},
    {"model.activations_checkpoint_num_layers", rule, "recompute.layers", "of NeMo 1"},
    {"model.moe_token_dispatcher_type", rule, "stack.dispatcher", "allgather (default), alltoall, flex: deepep"},
    {"model.moe_enable_deepep", rule, "stack.dispatcher", "of flex: deepep"},
    {"model.moe_flex_dispatcher_backend", rule, "stack.dispatcher", "of flex: deepep or hybridep"},
    {"model.num_layers", value, "shape.layers", "the value"},
    {"model.hidden_size", value, "shape.hidden_size", "the value"},
    {"model.ffn_hidden_size", value, "shape.ffn_hidden_size", "the value"},
    {"model.num_attention_heads", value, "shape.heads", "the value"},
    {"model.num_query_groups", value, "shape.query_groups", "and shape.grouped_query"},
    {"model.kv_channels", value, "shape.kv_channels", "the value"},
    {"model.max_position_embeddings", value, "shape.max_positions", "the value"},
    {"model.position_embedding_type", value, "shape.position", "the value"},
    {"model.rotary_base", value, "shape.rotary_base", "the value"},
    {"model.rotary_percent", value, "shape.rotary_percent", "the value"},
    {"model.rotary_percentage", value, "shape.rotary_percent", "of NeMo 1"},
    {"model.normalization", rule, "shape.normalization", "RMSNorm, LayerNorm, in any case"},
    {"model.layernorm_epsilon", value, "shape.norm_epsilon", "the value"},
    {"model.gated_linear_unit", value, "shape.gated", "the value"},
    {"model.activation", rule, "shape.gated", "of NeMo 1: those that end in swiglu"},
    {"model.share_embeddings_and_output_weights", rule, "shape.untied", "the opposite"},
    {"model.add_bias_linear", rule, "shape.no_linear_bias", "the opposite"},
    {"model.bias", rule, "shape.no_linear_bias", "of NeMo 1, the opposite"},
    {"model.add_qkv_bias", value, "shape.qkv_bias", "the value"},
    {"model.qk_layernorm", value, "shape.qk_norm", "the value"},
    {"model.vocab_size", value, "shape.vocabulary", "the value"},
    {"model.num_moe_experts", value, "shape.experts", "the value"},
    {"model.moe_router_topk", value, "shape.experts_per_token", "the value"},
    {"model.moe_ffn_hidden_size", value, "shape.expert_ffn", "the value"},
    {"model.moe_shared_expert_intermediate_size", value, "shape.shared_expert_ffn", "the value"},
    {"model.tokenizer.type", rule, "shape.vocabulary", "GPT2BPETokenizer: 50257, where vocab_size is missing"},
    {"model.make_vocab_size_divisible_by", rule, "shape.vocabulary", "padded to it times the tensor degree"},
    {"model.overlap_moe_expert_parallel_comm", not_modeled, "", "set schedule.kind = \"interleaved-overlap\""},
    {"comm_overlap.overlap_moe_expert_parallel_comm", not_modeled, "", "set schedule.kind = \"interleaved-overlap\""},
    {"comm_overlap.delay_wgrad_compute", not_modeled, "", "weight gradients apart"},
    {"model.cpu_offloading", not_modeled, "", "offload.activations is the share of all layers"},
    {"optimizer.optimizer_cpu_offload", not_modeled, "", "optimizer states stay on the GPU"},
    {"model.enable_cuda_graph", not_modeled, "", "launch gaps are the stack's"},
    {"model.external_cuda_graph", not_modeled, "", "launch gaps are the stack's"},
    {"model.hidden_dropout", not_modeled, "", "dropout is not priced"},
    {"model.attention_dropout", not_modeled, "", "dropout is not priced"},
    {"model.moe_expert_capacity_factor", not_modeled, "", "set routing.capacity_factor"},
    {"ddp.num_distributed_optimizer_instances", not_modeled, "", "set parallelism.shard_group"},
    {"train.rampup_batch_size", not_modeled, "", "every step is priced with the full batch"},
    {"model.rampup_batch_size", not_modeled, "", "every step is priced with the full batch"},
    {"precision.first_last_layers_bf16", not_modeled, "", "all layers have the same precision"},
    {"model.fp32_residual_connection", not_modeled, "", "residuals have the activations' format"},
};

constexpr std::string_view nemo_without_cost = R"(
trainer.accumulate_grad_batches trainer.* train.* model.data.* model.nsys_profile.* model.optim.* model.tokenizer.*
model._target_ model.init_method_std model.gradient_as_bucket_view model.pipeline_dtype model.ckpt_async_save
model.ckpt_parallel_load model.ckpt_parallel_save model.seed model.megatron_amp_O2 model.mcore_gpt
model.transformer_engine model.resume_from_checkpoint model.apply_query_key_layer_scaling model.pre_process
model.post_process model.hysteresis model.onnx_safe model.use_cpu_initialization model.apex_transformer_log_level
model.native_amp_init_scale model.native_amp_growth_interval model.persist_layer_norm
model.grad_allreduce_chunk_size_mb model.grad_div_ar_fusion model.gradient_accumulation_fusion
model.fp16_lm_cross_entropy precision.* ddp.* optimizer.* comm_overlap.* optim.* scheduler.* scheduler_config.*
checkpoint.* checkpoint_config.* logger.* logger_config.* log.* resume.* exp_manager.* profiling.* profiling_config.*
rng.* rng_config.* dist.* tokenizer.* tokenizer_config.* run.* _target_ name restore_from_path
)";

// Returns the path that a reference of OmegaConf means: "model.x" of "${model.x}", and of "${.x}" in "model.y". Other
// interpolations have none.
std::optional<std::string> referenced(const Entry& entry) {
  const std::string& text = entry.value;
  if (!text.starts_with("${") || text.find('}') != text.size() - 1) return std::nullopt;
  std::string path = text.substr(2, text.size() - 3);
  if (path.find(':') != std::string::npos) return std::nullopt;
  if (!path.starts_with('.')) return path;
  std::string scope = entry.written;
  while (path.starts_with('.')) {
    const std::size_t dot = scope.rfind('.');
    scope = dot == std::string::npos ? "" : scope.substr(0, dot);
    path.erase(0, 1);
  }
  return scope.empty() ? path : scope + "." + path;
}

Result<Configuration> read_nemo(const Source& source) {
  auto read = TRY(read_yaml(source));
  constexpr int longest_chain = 8;
  for (Entry& entry : read.entries) {
    for (int i = 0; i < longest_chain; ++i) {
      const auto target = referenced(entry);
      if (!target) break;
      const auto found = std::ranges::find(read.entries, *target, &Entry::written);
      if (found == read.entries.end() || &*found == &entry) break;
      entry.value = found->value;
      entry.items = found->items;
    }
    if (entry.value == "???") entry.value.clear();
  }
  return read;
}

void read_nemo_degrees(const RuleInput& in) {
  Draft& draft = in.draft;
  const auto nodes = draft.integer("trainer.num_nodes").value_or(1);
  const std::int64_t devices = draft.integer("trainer.devices").value_or(0);  // -1: all that there are
  if (devices > 0) draft.set("cluster.gpus", nodes * devices, "trainer.devices x trainer.num_nodes");
  if (draft.degree("tensor") > 1 && draft.flag("model.sequence_parallel").value_or(false))
    draft.set("parallelism.sequence", true, "model.sequence_parallel");
  if (draft.degree("context") > 1)
    draft.set("parallelism.context_method",
              draft.text("model.cp_comm_type").value_or("p2p") == "all_gather" ? "all-gather" : "ring",
              "model.cp_comm_type");
  if (draft.degree("expert") > 1) {
    const auto stated = draft.integer("model.expert_tensor_parallel_size");
    draft.set("parallelism.expert_tensor", stated.value_or(draft.degree("tensor")),
              stated ? "model.expert_tensor_parallel_size" : "the tensor degree");
  }
  const std::int64_t chunks = draft.integer("model.virtual_pipeline_model_parallel_size").value_or(1);
  if (draft.degree("pipeline") > 1 && chunks > 1) {
    draft.set("schedule.kind", "interleaved", "model.virtual_pipeline_model_parallel_size");
    draft.set("schedule.virtual_stages", chunks, "model.virtual_pipeline_model_parallel_size");
  }
}

// Sets the layers of each stage where the recipe does not spread them evenly.
void read_nemo_stages(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::int64_t ranks = draft.degree("pipeline");
  const std::int64_t chunks = std::max<std::int64_t>(1, draft.value("schedule.virtual_stages").value_or(1));
  const std::string_view layout_key = "model.pipeline_model_parallel_layout";
  const auto layout = draft.text(layout_key);
  if (!draft.list(layout_key).empty() && !layout) draft.not_modeled(layout_key, "a list; layers are spread evenly");
  const auto first = draft.integer("model.num_layers_in_first_pipeline_stage");
  const auto last = draft.integer("model.num_layers_in_last_pipeline_stage");
  const bool embedding = draft.flag("model.account_for_embedding_in_pipeline_split").value_or(false);
  const bool loss = draft.flag("model.account_for_loss_in_pipeline_split").value_or(false);
  const bool uneven = layout || first || last || embedding || loss;
  if (!uneven) return spread_evenly(draft);
  const auto layers = ranks > 1 ? in.layers() : std::nullopt;
  if (!layers) return;
  const auto set = [&](std::string_view key, const std::optional<std::vector<std::int64_t>>& counts) {
    if (counts)
      draft.set("schedule.layers_per_stage", *counts, key);
    else
      draft.fail(key, fmt::format("{} layers with it do not divide over {} stages", *layers, ranks * chunks));
  };
  if (layout) {
    const auto parsed = megatron::parse_layout(*layout);
    const bool fits = parsed && std::ssize(parsed->counts) == ranks * chunks;
    set(layout_key, fits ? std::optional(parsed->counts) : std::nullopt);
  } else if (embedding || loss) {
    set(embedding ? "model.account_for_embedding_in_pipeline_split" : "model.account_for_loss_in_pipeline_split",
        megatron::accounted_ends(*layers, ranks * chunks, embedding, loss));
  } else {
    set(first ? "model.num_layers_in_first_pipeline_stage" : "model.num_layers_in_last_pipeline_stage",
        megatron::uneven_ends(*layers, ranks, chunks, first, last));
  }
}

void nemo_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  if (const auto length = draft.integer("model.seq_length"); length && !draft.given("batch.sequence_length"))
    draft.set("batch.sequence_length", *length, "model.seq_length");
  read_nemo_model(in);
  read_nemo_degrees(in);
  read_nemo_stages(in);
  read_nemo_training(draft);
}

}  // namespace

const std::vector<KeyRow>& nemo_keys() {
  static const std::vector<KeyRow> rows = rows_of(nemo_rows, nemo_without_cost);
  return rows;
}

ConfigurationFormat nemo() {
  return {"nemo",
          "NeMo",
          &read_nemo,
          {{"model.config._target_", "config_class"},
           {"model.config.", "model."},
           {"model_config.", "model."},
           {"trainer.strategy.ddp.", "ddp."},
           {"trainer.strategy.", "model."},
           {"trainer.plugins.", "precision."},
           {"ddp_config.", "ddp."},
           {"train_config.", "train."},
           {"data.", "train."},
           {"dataset.sequence_length", "train.seq_length"},
           {"dataset.", "train."},
           {"dataset_config.", "train."},
           {"optim.config.", "optimizer."},
           {"optimizer_config.", "optimizer."},
           {"comm_overlap_config.", "comm_overlap."},
           {"mixed_precision.", "precision."}},
          nemo_keys(),
          &nemo_rules};
}

}  // namespace plumbline::model::configurations
