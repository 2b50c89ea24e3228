// Recipes of NeMo 2 and Megatron-Bridge as YAML and of Bridge as Python, and megatron_gpt_config.yaml of NeMo 1. Fields
// that have the name of an argument of Megatron are read as that; the table has the others.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow nemo_rows[] = {
    {"trainer.num_nodes", rule, "cluster.gpus", "times devices"},
    {"trainer.devices", rule, "cluster.gpus", "GPUs of a node; -1 and auto: --gpus"},
    {"def", rule, "cluster.gpus", "the number before gpu in the name of a recipe of Python"},
    {"trainer.max_steps", rule, "run.tokens", "times global batch and sequence length"},
    {"train.train_iters", rule, "run.tokens", "times global batch and sequence length"},
    {"trainer.precision", rule, "precision.gemm", "bf16, bf16-mixed, 16, 16-mixed, 32"},
    {"precision.precision", rule, "precision.gemm", "the same of MegatronMixedPrecision"},
    {"mixed_precision", rule, "precision.gemm", "Megatron-Bridge's names: bf16_mixed, bf16_with_mxfp8_mixed, ..."},
    {"config_class", rule, "model.config", "a shipped model of the class, else the fields below"},
    {"model.encoder_seq_length", value, "batch.sequence_length", "of NeMo 1"},
    {"model.seq_length", rule, "batch.sequence_length", "where the data does not state it"},
    {"model.sequence_parallel", rule, "parallelism.sequence", "with a tensor degree"},
    {"model.optim.name", rule, "parallelism.zero_stage", "distributed_fused_adam: 1"},
    {"ddp.grad_reduce_in_fp32", rule, "precision.gradients", "fp32, else bf16"},
    {"precision.grad_reduce_in_fp32", rule, "precision.gradients", "the same of NeMo 2, default true; it wins"},
    {"model.tp_comm_overlap", rule, "overlap.tensor", "with sequence parallelism"},
    {"model.ub_tp_comm_overlap", rule, "overlap.tensor", "of NeMo 1"},
    {"comm_overlap.tp_comm_overlap", rule, "overlap.tensor", "of Megatron-Bridge"},
    {"trainer.callbacks[].tp_comm_overlap", rule, "overlap.tensor", "of NeMo 2"},
    {"trainer.gradient_clip_val", rule, "optimizer.gradient_clipping", "above 0: true"},
    {"optimizer.clip_grad", rule, "optimizer.gradient_clipping", "above 0: true"},
    {"optimizer.optimizer", rule, "", "adam is priced"},
    {"peft", rule, "", "refused: all weights train"},
    {"peft._target_", rule, "", "refused: all weights train"},
    {"model.normalization", rule, "shape.normalization", "RMSNorm, LayerNorm, in any case"},
    {"model.activation", rule, "shape.gated", "of NeMo 1: those that end in swiglu"},
    {"model.share_embeddings_and_output_weights", rule, "shape.untied", "the opposite"},
    {"model.add_bias_linear", rule, "shape.no_linear_bias", "the opposite"},
    {"model.bias", rule, "shape.no_linear_bias", "of NeMo 1, the opposite"},
    {"model.tokenizer.type", rule, "shape.vocabulary", "GPT2BPETokenizer: 50257, where vocab_size is missing"},
    {"model.make_vocab_size_divisible_by", rule, "shape.vocabulary", "padded to it times the tensor degree"},
    {"model.cpu_offloading", not_modeled, "", "offload.activations is the share of all layers"},
    {"model.fp32_residual_connection", not_modeled, "", "residuals have the activations' format"},
};

constexpr KeyGroup nemo_groups[] = {
    {no_cost, "", R"(
trainer.accumulate_grad_batches trainer.* train.* model.data.* model.nsys_profile.* model.optim.* model.tokenizer.*
model._target_ model.gradient_as_bucket_view model.pipeline_dtype model.ckpt_async_save model.ckpt_parallel_load
model.ckpt_parallel_save model.megatron_amp_O2 model.mcore_gpt model.transformer_engine model.resume_from_checkpoint
model.pre_process model.post_process model.onnx_safe model.apex_transformer_log_level model.native_amp_init_scale
model.native_amp_growth_interval model.persist_layer_norm model.grad_allreduce_chunk_size_mb model.grad_div_ar_fusion
model.gradient_accumulation_fusion precision.* ddp.* optimizer.* comm_overlap.* optim.* scheduler.* scheduler_config.*
checkpoint.* checkpoint_config.* logger.* logger_config.* log.* resume.* exp_manager.* profiling.* profiling_config.*
rng.* rng_config.* dist.* tokenizer.* tokenizer_config.* run.* _target_ name restore_from_path ConfigContainer()
validation.* rerun_state_machine.* straggler.* nvrx_straggler.* ft.* inprocess_restart.* tensor_inspect.* env_vars.*
peft.* optimizer_config_override_provider.* model.init_method.* model.output_layer_init_method.*
model.embedding_init_method.* model.activation_func.* model.generation_config.* model.hf_model_id model.params_dtype
model.autocast_dtype model.perform_initialization model.deallocate_pipeline_outputs model.batch_p2p_comm
model.batch_p2p_sync model.parallel_output model.scatter_embedding_sequence_parallel model.should_pad_vocab
model.masked_softmax_fusion model.bias_activation_fusion model.apply_rope_fusion
)"},
};

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
  auto read = TRY(is_python(source.text) ? read_python(source) : read_yaml(source));
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
    if (entry.key == "mixed_precision" && !entry.items.empty()) entry.value = entry.items.front();  // of a function
  }
  return read;
}

void read_nemo_degrees(const RuleInput& in) {
  Draft& draft = in.draft;
  const auto nodes = draft.integer("trainer.num_nodes").value_or(1);
  const std::int64_t devices = draft.integer("trainer.devices").value_or(0);  // -1: all that there are
  if (devices > 0) draft.set("cluster.gpus", nodes * devices, "trainer.devices x trainer.num_nodes");
  const std::string recipe = draft.text("def").value_or("");
  if (const std::size_t end = recipe.find("gpu_"); end != std::string::npos && end > 0) {
    const std::size_t begin = recipe.find_last_not_of("0123456789", end - 1) + 1;
    if (const auto gpus = parse_number<std::int64_t>(std::string_view(recipe).substr(begin, end - begin)))
      draft.set("cluster.gpus", *gpus, "def");
  }
  if (draft.degree("tensor") > 1 && draft.flag("model.sequence_parallel").value_or(false))
    draft.set("parallelism.sequence", true, "model.sequence_parallel");
}

void nemo_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  for (const Entry& entry : draft.configuration().entries) {
    const bool adapts = entry.key == "peft" || entry.key.starts_with("peft.") || entry.key.ends_with("peft_scheme");
    if (adapts && !(entry.value.empty() && entry.items.empty()))
      return refuse_adapter(draft, entry.key, entry.value.empty() ? "an adapter" : entry.value);
  }
  for (const Entry& entry : draft.configuration().entries)  // recipes of Python that begin as Bridge's for adapters
    if (entry.key.ends_with("_peft_config()") || entry.key.ends_with("_peft_common()"))
      return refuse_adapter(draft, entry.key, "an adapter");
  if (const auto length = draft.integer("model.seq_length"); length && !draft.given("batch.sequence_length"))
    draft.set("batch.sequence_length", *length, "model.seq_length");
  read_nemo_model(in);
  read_nemo_degrees(in);
  read_nemo_training(in);
}

}  // namespace

const KeyRow* nemo_row(std::string_view key) {
  static const ConfigurationFormat format = nemo();
  return format.row(key);
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
          table_of(nemo_rows, nemo_groups),
          &nemo_rules,
          &megatron_row};
}

}  // namespace plumbline::model::configurations
