// The keys of torchtitan's configurations, and what each means for a plan.
#include <string_view>
#include <vector>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow torchtitan_rows[] = {
    {"model.name", rule, "model.config", "with the flavor"},
    {"model.flavor", rule, "model.config", "a shipped model, else a config.json next to the plan"},
    {"model.converters", rule, "precision.gemm", "float8, mx"},
    {"training.local_batch_size", rule, "batch.micro_batch_size",
     "default 8; in a pipeline the micro-batch is pipeline_parallel_microbatch_size"},
    {"training.global_batch_size", rule, "batch.global_batch_size", "default: local batch times data-parallel degree"},
    {"training.seq_len", rule, "batch.sequence_length", "default 2048"},
    {"training.num_tokens_per_microbatch_per_dp_rank", rule, "batch.micro_batch_size",
     "over the sequence length; default 16384"},
    {"training.num_tokens_per_train_step", rule, "batch.global_batch_size", "over the sequence length"},
    {"parallelism.num_pp_microbatches", rule, "batch.global_batch_size",
     "micro-batches of a replica in a pipeline; default 1"},
    {"training.disable_cuda_graphs", rule, "stack.graphs",
     "of build_model_config: full_iteration unless true, or where the dispatch of experts waits for the host"},
    {"training.steps", rule, "run.tokens", "times global batch and sequence length"},
    {"training.max_norm", rule, "optimizer.gradient_clipping", "above 0: true"},
    {"training.enable_cpu_offload", rule, "offload.optimizer", "parameters and gradients stay on the GPU"},
    {"training.mixed_precision_param", rule, "precision.gemm", "bfloat16, float32"},
    {"training.mixed_precision_reduce", rule, "precision.gradient_reduce", "float32, bfloat16"},
    {"parallelism.data_parallel_replicate_degree", rule, "parallelism.shard_group", "HSDP: GPUs over this"},
    {"parallelism.data_parallel_shard_degree", rule, "parallelism.zero_stage", "3; 1 without context degree: DDP"},
    {"parallelism.fsdp_reshard_after_forward", rule, "parallelism.reshard_after_forward",
     "default: true without a pipeline"},
    {"parallelism.tensor_parallel_degree", rule, "parallelism.tensor", "above 1 with parallelism.sequence"},
    {"parallelism.enable_sequence_parallel", rule, "parallelism.sequence", "default true"},
    {"model_spec.tp_gemm_backend", rule, "overlap.tensor", "dist_gemm"},
    {"parallelism.enable_async_tensor_parallel", rule, "overlap.tensor", "where the model is compiled"},
    {"parallelism.pipeline_parallel_degree", value, "parallelism.pipeline", "the value"},
    {"parallelism.pipeline_parallel_schedule", rule, "schedule.kind", "names below"},
    {"parallelism.pipeline_parallel_microbatch_size", rule, "batch.micro_batch_size", "in a pipeline; default 1"},
    {"parallelism.pipeline_parallel_layers_per_stage", rule, "schedule.virtual_stages", "layers over it, over ranks"},
    {"parallelism.pipeline_parallel_first_stage_less_layers", rule, "schedule.layers_per_stage", "default 1"},
    {"parallelism.pipeline_parallel_last_stage_less_layers", rule, "schedule.layers_per_stage", "default 1"},
    {"parallelism.module_fqns_per_model_part", rule, "schedule.layers_per_stage", "default: as the three keys above"},
    {"parallelism.module_fqns_per_model_part[]", rule, "schedule.layers_per_stage", "the modules layers.N of a stage"},
    {"parallelism.context_parallel_degree", value, "parallelism.context", "the value"},
    {"parallelism.context_parallel_rotate_method", rule, "parallelism.context_method",
     "allgather (default): all-gather, alltoall: ring"},
    {"parallelism.expert_parallel_degree", value, "parallelism.expert", "the value"},
    {"parallelism.expert_tensor_parallel_degree", rule, "parallelism.expert_tensor",
     "default 1; without an expert degree the tensor degree, of experts"},
    {"parallelism.expert_parallel_comm_backend", rule, "stack.dispatcher",
     "standard (default): alltoall; deepep, hybridep"},
    {"activation_checkpoint.mode", rule, "recompute.policy", "default selective; memory_budget is not modelled"},
    {"activation_checkpoint.selective_ac_option", rule, "recompute.layers",
     "op (default of registries): every second GEMM, as gate and up of as many FLOPs, and all of experts; N (default "
     "2): whole layers, one of N"},
    {"compile.enable", rule, "stack.name",
     "with the model: torchtitan-compile, of registries torchtitan-2026, else pytorch-fsdp-eager"},
    {"compile.components", rule, "stack.name", "default model and loss"},
    {"quantize.linear.float8.recipe_name", rule, "precision.gemm", "tensorwise (default), rowwise: fp8_tensor"},
    {"quantize.linear.mx.recipe_name", rule, "precision.gemm", "mxfp8, mxfp8_cublas: mxfp8"},
    {"parallelism.pipeline_parallel_split_points", not_modeled, "", "layers are spread by the rule of torchtitan"},
    {"parallelism.pipeline_parallel_schedule_csv", not_modeled, "", "schedule.kind has no table of actions"},
    {"parallelism.enable_compiled_autograd", not_modeled, "", "launches of the backward pass are those of the stack"},
    {"parallelism.disable_loss_parallel", not_modeled, "", "the head and its loss are divided by the tensor degree"},
    {"parallelism.context_parallel_load_balancer", rule, "", "None is not modelled"},
    {"parallelism.enable_fsdp_symm_mem", not_modeled, "", "gathers and reductions are NCCL's"},
    {"model_spec.non_blocking_capacity_factor", not_modeled, "", "set routing.capacity_factor"},
    {"parallelism.pipeline_parallel_expert_parallel_overlap", rule, "schedule.kind",
     "DualPipeV overlaps; false is not modelled"},
    {"training.dtype", rule, "", "float32 (default); bfloat16 is not modelled"},
    {"loss", rule, "", "cross-entropy"},
    {"loss.num_chunks", rule, "loss.chunks", "of a loss in chunks; default 8"},
    {"model_spec.attn_backend", rule, "attention.kernel",
     "flex (default of build_model_config): triton, varlen: flash2, sdpa: that of the stack"},
    {"model_spec.num_mtp_layers", not_modeled, "", "the model has no prediction modules"},
    {"compile", rule, "stack.name", "of build_model_config: a section compiles"},
    {"transforms", rule, "", "of apply_transforms"},
    {"transforms[].inner_attention", rule, "parallelism.context_method", "Ring: ring, KVAllGather: all-gather"},
    {"transforms[].dispatcher", rule, "stack.dispatcher", "HybridEP, DeepEP, else alltoall"},
    {"transforms[].expert_precision", rule, "precision.experts", "the value"},
    {"activation_checkpoint.save_regions", rule, "recompute.policy", "none: full, else selective"},
    {"activation_checkpoint.recompute_regions", rule, "", "the experts' first GEMM"},
    {"optimizer.optimizers", rule, "", "Adam and AdamW are priced"},
    {"optimizer.optimizers[].moment_dtype", rule, "precision.optimizer_moments", "bfloat16: bf16"},
    {"optim.enable_cuda_graph", not_modeled, "", "launches of the optimizer are those of the stack"},
    {"optim.ema", not_modeled, "", "set optimizer.ema"},
    {"override.imports", not_modeled, "", "kernels are those of the stack"},
    {"dist_moe", not_modeled, "", "experts are sent by stack.dispatcher"},
    {"parallelism.fsdp_defer_gradient_reduction", not_modeled, "", "gradients are reduced as by their stage of ZeRO"},
    {"parallelism.fsdp_symm_mem_scope", not_modeled, "", "gathers and reductions are NCCL's"},
    {"parallelism.pp_max_unsharded_active_stages", not_modeled, "", "all stages of a rank stay gathered"},
    {"optimizer", rule, "", "AdamW and Adam after the backward pass are priced"},
    {"optimizer.name", rule, "", "AdamW and Adam are priced"},
    {"optimizer.implementation", rule, "", "fused is priced"},
    {"optimizer.early_step_in_backward", not_modeled, "", "the optimizer runs after the backward pass"},
    {"quantize.linear.float8.enable_fsdp_float8_all_gather", not_modeled, "", "parameters are gathered in BF16"},
    {"quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp", not_modeled, "", "scales are of each use"},
    {"quantize.linear.float8.emulate", not_modeled, "", "FP8 GEMMs are those of the GPU"},
    {"quantize.linear.float8.filter_fqns", rule, "", "output, router.gate, auto_filter_small_kn; others not modelled"},
    {"quantize.linear.mx.filter_fqns", rule, "", "as for float8"},
    {"quantize.grouped_mm.float8.fqns", rule, "precision.experts", "any: as precision.gemm, else bf16"},
    {"quantize.grouped_mm.mx.fqns", rule, "precision.experts", "as for float8"},
    {"fault_tolerance.semi_sync_method", not_modeled, "", "replicas reduce every step"},
    {"fault_tolerance.enable", not_modeled, "", "replicas are those of the mesh"},
    {"comm.mode", not_modeled, "", "collectives are NCCL's"},
};

constexpr KeyGroup titan_groups[] = {
    {not_modeled, "kernels are those of the profile", "training.deterministic debug.deterministic"},
    {not_modeled, "only training steps are priced", "validation.enable validation.enabled"},
    {no_cost, "", R"(
Trainer.Config() def hf_assets_path dump_folder tokenizer.* dataloader.* model_spec.* model_converters validator
profiler.* loss.* parallelism.full_dtensor parallelism.spmd_backend quantize.linear.float8.model_compile_enabled
checkpointer.* optim optim.lr_scheduler.* override dist_moe.* transforms[].*
parallelism.save_parallelism_file parallelism.pp_num_unshard_lookahead_factor
parallelism.pipeline_parallel_max_outstanding_sends
debug.* activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns activation_checkpoint.*
quantize.linear.float8.force_recompute_fp8_weight_in_bwd quantize.linear.mx.mxfp8_dim1_cast_kernel_choice
quantize.grouped_mm.mx.recipe_name fault_tolerance.* validation.* checkpoint.* comm.* compile.backend experimental.*
job.* lr_scheduler.* memory_estimation.* metrics.* model.tokenizer_path model.hf_assets_path
model.print_after_conversion optimizer.* profiling.* training.dataset training.dataset_path training.gc_debug
training.gc_freq training.seed training.dataloader.* training.data_parallel_type
)"},
};

}  // namespace

std::vector<KeyRow> torchtitan_keys() { return table_of(torchtitan_rows, titan_groups); }

}  // namespace plumbline::model::configurations
