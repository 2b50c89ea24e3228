// What functions of Megatron-Bridge and of NeMo 2 set, as Python that is read with a recipe: a recipe imports them from
// files that are not read. Only what decides the step is here.
#include <algorithm>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

// perf_recipes/_common.py @007282ea, perf_recipes/llama/common.py @3564acfd, perf_recipes/deepseek/common.py @267f7562,
// perf_recipes/gpt_oss/common.py @3564acfd, perf_recipes/qwen/common.py (the file of 2026-08), utils/cuda_graph.py.
// Stages of DeepSeek-V3 and Kimi K2: recipes/deepseek/deepseek_v3.py @05d003fb, recipes/kimi/h100/kimi_k2.py @0cabbd55.
constexpr std::string_view kBridge = R"(
def _benchmark_common(cfg):
    cfg.ddp.grad_reduce_in_fp32 = False
    cfg.mixed_precision.grad_reduce_in_fp32 = False
    cfg.model.use_transformer_engine_op_fuser = False

def _with_global_batch_size(cfg, size):
    cfg.train.global_batch_size = size
    return cfg

def _llama_benchmark_common(cfg):
    _benchmark_common(cfg)

def _deepseek_v3_common(cfg):
    cfg.model.moe_router_fusion = True
    cfg.model.recompute_granularity = "selective"

def _enable_deepseek_precision_aware_optimizer(cfg):
    cfg.optimizer.use_precision_aware_optimizer = True
    cfg.optimizer.exp_avg_dtype = "bf16"
    cfg.optimizer.exp_avg_sq_dtype = "bf16"

def _enable_deepseek_transformer_engine_graph(cfg):
    cfg.model.cuda_graph_impl = "transformer_engine"
    cfg.model.cuda_graph_scope = ["attn", "moe_router", "moe_preprocess"]

def _enable_deepseek_full_iteration_mxfp8(cfg, *, fp8_dot_product_attention=False, fp8_output_proj=False):
    cfg.model.cuda_graph_impl = "full_iteration"
    cfg.model.cuda_graph_scope = []
    cfg.model.use_transformer_engine_op_fuser = True
    cfg.model.fp8_output_proj = fp8_output_proj
    cfg.mixed_precision.fp8_dot_product_attention = fp8_dot_product_attention
    cfg.comm_overlap.overlap_moe_expert_parallel_comm = True

def _enable_hybridep_full_iteration_mxfp8(cfg):
    cfg.model.moe_flex_dispatcher_backend = "hybridep"
    cfg.model.moe_token_dispatcher_type = "flex"
    cfg.model.recompute_granularity = None
    cfg.model.recompute_modules = None
    cfg.model.cuda_graph_impl = "full_iteration"
    cfg.model.cuda_graph_scope = []
    cfg.model.use_transformer_engine_op_fuser = True
    cfg.mixed_precision.fp8_dot_product_attention = True
    cfg.comm_overlap.tp_comm_overlap = True
    cfg.comm_overlap.overlap_moe_expert_parallel_comm = True

def _apply_gpt_oss_120b_full_iter_fp8mx_configs(cfg):
    cfg.model.moe_flex_dispatcher_backend = "hybridep"
    cfg.model.moe_token_dispatcher_type = "flex"
    cfg.model.cuda_graph_impl = "full_iteration"
    cfg.model.cuda_graph_scope = []
    cfg.model.use_transformer_engine_op_fuser = True
    cfg.model.fp8_output_proj = True
    cfg.mixed_precision.fp8_dot_product_attention = True
    cfg.comm_overlap.tp_comm_overlap = False
    cfg.comm_overlap.overlap_moe_expert_parallel_comm = True

def _gpt_oss_20b_fp8mx_precision():
    precision = _perf_precision("fp8_mx")
    precision.fp8_param_gather = False
    return precision

def _gpt_oss_20b_nvfp4_precision():
    return _perf_precision("nvfp4")

def _apply_gpt_oss_20b_common_configs(cfg):
    cfg.mixed_precision.grad_reduce_in_fp32 = False
    cfg.ddp.grad_reduce_in_fp32 = False
    cfg.model.moe_flex_dispatcher_backend = "hybridep"
    cfg.model.moe_token_dispatcher_type = "flex"
    cfg.model.moe_permute_fusion = False
    cfg.model.moe_router_fusion = False
    cfg.model.pipeline_model_parallel_size = 1
    cfg.model.virtual_pipeline_model_parallel_size = None
    cfg.model.seq_length = 8192

def _apply_gpt_oss_20b_transformer_engine_graph_configs(cfg):
    cfg.model.cuda_graph_impl = "transformer_engine"
    cfg.model.cuda_graph_scope = ["attn", "moe_router", "moe_preprocess"]

def _apply_gpt_oss_20b_local_graph_configs(cfg):
    cfg.model.cuda_graph_impl = "local"
    cfg.model.cuda_graph_scope = ["full_iteration"]
    cfg.model.use_transformer_engine_op_fuser = True

def set_cuda_graph_modules(model, modules):
    model.cuda_graph_scope = modules

def _stages_of_61_layers(stages, last):
    layouts = {
        1: None,
        4: [["embedding"] + ["decoder"] * 16] + [["decoder"] * 16] * 2 + [["decoder"] * 13 + last],
        8: [["embedding"] + ["decoder"] * 8] + [["decoder"] * 8] * 6 + [["decoder"] * 5 + last],
        16: [["embedding"] + ["decoder"] * 4] + [["decoder"] * 4] * 14 + [["decoder"] + last],
    }
    return layouts[stages]

def set_deepseek_v3_pipeline_model_parallel_layout(model, layout=None):
    last = ["mtp"] * _stated(model, "mtp_num_layers", 1) + ["loss"]
    chunks = _stated(model, "virtual_pipeline_model_parallel_size", None) or 1
    model.pipeline_model_parallel_layout = layout or _stages_of_61_layers(model.pipeline_model_parallel_size * chunks, last)

def _get_kimi_k2_pipeline_layout(pp_size, vp_size):
    return _stages_of_61_layers(pp_size * (vp_size or 1), ["loss"])
)";

// NVIDIA/NeMo nemo/collections/llm/recipes: precision/mixed_precision.py @0a07447c, optim/adam.py @06cca550,
// finetune_default.py @07362af8, deepseek.py @2341b2bd, qwen3.py @2c5b5343. Trainers of other models differ from
// Qwen3's in the degree of tensor parallelism and in a section of DDP, which two have; only Qwen3's takes degrees of
// experts.
constexpr std::string_view kNemo = R"(
PEFT_STR2CLS = {"lora": "LoRA", "dora": "DoRA"}

def bf16_mixed():
    return run.Config("MegatronMixedPrecision", precision="bf16-mixed", grad_reduce_in_fp32=True)

def fp16_mixed():
    return run.Config("MegatronMixedPrecision", precision="16-mixed", grad_reduce_in_fp32=False)

def _with_fp8(cfg, recipe, gathers):
    cfg.fp8 = "hybrid"
    cfg.fp8_recipe = recipe
    cfg.fp8_param_gather = gathers
    return cfg

def bf16_with_fp8_mixed():
    return _with_fp8(bf16_mixed(), "delayed", True)

def fp16_with_fp8_mixed():
    return _with_fp8(fp16_mixed(), "delayed", True)

def bf16_with_mxfp8_mixed():
    return _with_fp8(bf16_mixed(), "mxfp8", False)

def fp16_with_mxfp8_mixed():
    return _with_fp8(fp16_mixed(), "mxfp8", False)

def _with_current_scaling(cfg):
    cfg = _with_fp8(cfg, "tensorwise", True)
    cfg.first_last_layers_bf16 = True
    cfg.num_layers_at_start_in_bf16 = 1
    cfg.num_layers_at_end_in_bf16 = 1
    return cfg

def bf16_with_fp8_current_scaling_mixed():
    return _with_current_scaling(bf16_mixed())

def fp16_with_fp8_current_scaling_mixed():
    return _with_current_scaling(fp16_mixed())

def distributed_fused_adam_with_cosine_annealing(precision="bf16-mixed", clip_grad=1.0):
    config = run.Config("OptimizerConfig", optimizer="adam", use_distributed_optimizer=True, clip_grad=clip_grad)
    return run.Config("MegatronOptimizerModule", config=config)

def _trainer(strategy, num_nodes, num_gpus_per_node, max_steps, plugins, callbacks):
    return run.Config("Trainer", num_nodes=num_nodes, devices=num_gpus_per_node, max_steps=max_steps, plugins=plugins,
                      callbacks=callbacks or [], strategy=strategy)

def trainer(tensor_parallelism=4, pipeline_parallelism=1, virtual_pipeline_parallelism=1, context_parallelism=1,
            expert_parallelism=1, sequence_parallelism=True, account_for_embedding_in_pipeline_split=True,
            account_for_loss_in_pipeline_split=True, num_nodes=1, num_gpus_per_node=8, max_steps=1168251,
            callbacks=None):
    strategy = run.Config("MegatronStrategy", tensor_model_parallel_size=tensor_parallelism,
                          pipeline_model_parallel_size=pipeline_parallelism,
                          virtual_pipeline_model_parallel_size=virtual_pipeline_parallelism,
                          context_parallel_size=context_parallelism, expert_model_parallel_size=expert_parallelism,
                          sequence_parallel=sequence_parallelism,
                          account_for_embedding_in_pipeline_split=account_for_embedding_in_pipeline_split,
                          account_for_loss_in_pipeline_split=account_for_loss_in_pipeline_split,
                          ddp=run.Config("DistributedDataParallelConfig", grad_reduce_in_fp32=True,
                                         overlap_grad_reduce=True, overlap_param_gather=True))
    return _trainer(strategy, num_nodes, num_gpus_per_node, max_steps, bf16_mixed(), callbacks)

def default_finetune_trainer(tensor_parallelism=1, pipeline_parallelism=1, virtual_pipeline_parallelism=None,
                             context_parallelism=1, sequence_parallelism=False, num_nodes=1, num_gpus_per_node=8,
                             max_steps=1000):
    strategy = run.Config("MegatronStrategy", tensor_model_parallel_size=tensor_parallelism,
                          pipeline_model_parallel_size=pipeline_parallelism,
                          virtual_pipeline_model_parallel_size=virtual_pipeline_parallelism,
                          context_parallel_size=context_parallelism, sequence_parallel=sequence_parallelism)
    return _trainer(strategy, num_nodes, num_gpus_per_node, max_steps, bf16_mixed(), None)

def default_finetune_recipe(model, resume_path, dir=None, name="default", num_nodes=1, num_gpus_per_node=8,
                            packed_sequence=False):
    data = run.Config("SquadDataModule", seq_length=2048, global_batch_size=128, micro_batch_size=1)
    if packed_sequence:
        data.global_batch_size = 8
    return run.Partial("finetune", model=model, data=data,
                       trainer=default_finetune_trainer(num_nodes=num_nodes, num_gpus_per_node=num_gpus_per_node),
                       optim=distributed_fused_adam_with_cosine_annealing())
)";

// Models whose trainers are read: the tensor degree where none is given, and whether gradients and parameters of
// data-parallel ranks overlap (nemo/collections/llm/recipes/{qwen2,qwen3,nemotron,gemma2,starcoder2}.py).
struct Family {
  std::string_view name;
  int tensor;
  std::string_view ddp;
};
constexpr std::string_view kOverlaps =
    ", ddp=run.Config(\"DistributedDataParallelConfig\", grad_reduce_in_fp32=True, overlap_grad_reduce=True, "
    "overlap_param_gather=True)";
constexpr Family kFamilies[] = {
    {"qwen2", 2, ""}, {"qwen3", 1, ""}, {"nemotron", 2, kOverlaps}, {"gemma2", 1, kOverlaps}, {"starcoder2", 2, ""}};
constexpr std::string_view kFamily = R"(
def {0}_model(version):
    return run.Config("{0}", config=run.Config(version))

def {0}_trainer(tensor_parallelism={1}, pipeline_parallelism=1, pipeline_parallelism_type=None,
                virtual_pipeline_parallelism=None, context_parallelism=1,
                sequence_parallelism=False, expert_parallelism=None, num_nodes=1, num_gpus_per_node=8,
                max_steps=1168251, precision="bf16-mixed", callbacks=None):
    strategy = run.Config("MegatronStrategy", tensor_model_parallel_size=tensor_parallelism,
                          pipeline_model_parallel_size=pipeline_parallelism,
                          virtual_pipeline_model_parallel_size=virtual_pipeline_parallelism,
                          context_parallel_size=context_parallelism, sequence_parallel=sequence_parallelism,
                          expert_model_parallel_size=expert_parallelism, expert_tensor_parallel_size=1{2})
    plugins = fp16_mixed() if precision == "16-mixed" else bf16_mixed() if precision == "bf16-mixed" else None
    return _trainer(strategy, num_nodes, num_gpus_per_node, max_steps, plugins, callbacks)
)";

}  // namespace

Result<Configuration> read_bridge(const Source& source) {
  std::string whole(kBridge);
  const std::size_t nemo = whole.size();
  whole += kNemo;
  for (const Family& family : kFamilies)
    whole += fmt::format(fmt::runtime(kFamily), family.name, family.tensor, family.ddp);
  PythonModule recipe{whole.size(), "", {}};
  for (const std::string_view line : lines_of(source.text)) {
    const std::string_view statement = trimmed(line);
    const std::size_t import = statement.find(" import ");
    if (!statement.starts_with("from ") || import == std::string_view::npos) continue;
    const std::string module(trimmed(statement.substr(5, import - 5)));
    if (module.starts_with("megatron.bridge.")) recipe.imports[module] = 0;
    if (module.starts_with("nemo.collections.llm")) recipe.imports[module] = 1;
  }
  whole += source.text;
  return read_python({whole, source.path, source.renames, source.function, {{}, {nemo, "", {}}, std::move(recipe)}});
}

}  // namespace plumbline::model::configurations
