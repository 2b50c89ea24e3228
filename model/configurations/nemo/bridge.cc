// What functions of Megatron-Bridge set of the configuration that a recipe gives them, as Python that is read with the
// recipe: a recipe imports them from files that are not read. Only what decides the step is here.
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

// perf_recipes/_common.py @007282ea, perf_recipes/llama/common.py @3564acfd, perf_recipes/deepseek/common.py @267f7562,
// perf_recipes/gpt_oss/common.py @3564acfd, perf_recipes/qwen/common.py (the file of 2026-08), utils/cuda_graph.py.
constexpr std::string_view kFunctions = R"(
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
)";

}  // namespace

Result<Configuration> read_bridge(const Source& source) {
  PythonModule recipe{kFunctions.size(), "", {}};
  for (const std::string_view line : lines_of(source.text)) {
    const std::string_view statement = trimmed(line);
    const std::size_t import = statement.find(" import ");
    if (!statement.starts_with("from megatron.bridge.") || import == std::string_view::npos) continue;
    recipe.imports[std::string(trimmed(statement.substr(5, import - 5)))] = 0;
  }
  const std::string whole = std::string(kFunctions) + std::string(source.text);
  return read_python({whole, source.path, source.renames, source.function, {{}, std::move(recipe)}});
}

}  // namespace plumbline::model::configurations
