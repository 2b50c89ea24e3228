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
#include "model/megatron/config.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow nemo_keys[] = {
    {"trainer.num_nodes", rule, "cluster.gpus", "times devices"},
    {"trainer.devices", rule, "cluster.gpus", "GPUs of a node; -1 and auto: --gpus"},
    {"trainer.max_steps", rule, "run.tokens", "times global batch and sequence length"},
    {"train.train_iters", rule, "run.tokens", "times global batch and sequence length"},
    {"trainer.precision", rule, "precision.gemm", "bf16, bf16-mixed, 16, 16-mixed, 32"},
    {"precision.precision", rule, "precision.gemm", "the same of MegatronMixedPrecision"},
    {"precision.fp8", rule, "precision.gemm", "by the recipe"},
    {"precision.fp8_recipe", rule, "precision.gemm",
     "delayed (default), tensorwise: fp8_tensor, blockwise: fp8, mxfp8"},
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
    {"model.pipeline_model_parallel_layout", not_modeled, "", "layers are spread evenly"},
    {"model.num_layers_in_first_pipeline_stage", not_modeled, "", "layers are spread evenly"},
    {"model.num_layers_in_last_pipeline_stage", not_modeled, "", "layers are spread evenly"},
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
    {"trainer.accumulate_grad_batches", no_cost, "", ""},
    {"trainer.*", no_cost, "", ""},
    {"train.*", no_cost, "", ""},
    {"model.data.*", no_cost, "", ""},
    {"model.nsys_profile.*", no_cost, "", ""},
    {"model.optim.*", no_cost, "", ""},
    {"model.tokenizer.*", no_cost, "", ""},
    {"model._target_", no_cost, "", ""},
    {"model.init_method_std", no_cost, "", ""},
    {"model.gradient_as_bucket_view", no_cost, "", ""},
    {"model.pipeline_dtype", no_cost, "", ""},
    {"model.ckpt_async_save", no_cost, "", ""},
    {"model.ckpt_parallel_load", no_cost, "", ""},
    {"model.ckpt_parallel_save", no_cost, "", ""},
    {"model.seed", no_cost, "", ""},
    {"model.megatron_amp_O2", no_cost, "", ""},
    {"model.mcore_gpt", no_cost, "", ""},
    {"model.transformer_engine", no_cost, "", ""},
    {"model.resume_from_checkpoint", no_cost, "", ""},
    {"model.apply_query_key_layer_scaling", no_cost, "", ""},
    {"model.pre_process", no_cost, "", ""},
    {"model.post_process", no_cost, "", ""},
    {"model.hysteresis", no_cost, "", ""},
    {"model.onnx_safe", no_cost, "", ""},
    {"model.use_cpu_initialization", no_cost, "", ""},
    {"model.apex_transformer_log_level", no_cost, "", ""},
    {"model.native_amp_init_scale", no_cost, "", ""},
    {"model.native_amp_growth_interval", no_cost, "", ""},
    {"model.persist_layer_norm", no_cost, "", ""},
    {"model.grad_allreduce_chunk_size_mb", no_cost, "", ""},
    {"model.grad_div_ar_fusion", no_cost, "", ""},
    {"model.gradient_accumulation_fusion", no_cost, "", ""},
    {"model.fp32_residual_connection", not_modeled, "", "residuals have the activations' format"},
    {"model.fp16_lm_cross_entropy", no_cost, "", ""},
    {"precision.*", no_cost, "", ""},
    {"ddp.*", no_cost, "", ""},
    {"optimizer.*", no_cost, "", ""},
    {"comm_overlap.*", no_cost, "", ""},
    {"optim.*", no_cost, "", ""},
    {"scheduler.*", no_cost, "", ""},
    {"scheduler_config.*", no_cost, "", ""},
    {"checkpoint.*", no_cost, "", ""},
    {"checkpoint_config.*", no_cost, "", ""},
    {"logger.*", no_cost, "", ""},
    {"logger_config.*", no_cost, "", ""},
    {"log.*", no_cost, "", ""},
    {"resume.*", no_cost, "", ""},
    {"exp_manager.*", no_cost, "", ""},
    {"profiling.*", no_cost, "", ""},
    {"profiling_config.*", no_cost, "", ""},
    {"rng.*", no_cost, "", ""},
    {"rng_config.*", no_cost, "", ""},
    {"dist.*", no_cost, "", ""},
    {"tokenizer.*", no_cost, "", ""},
    {"tokenizer_config.*", no_cost, "", ""},
    {"run.*", no_cost, "", ""},
    {"_target_", no_cost, "", ""},
    {"name", no_cost, "", ""},
    {"restore_from_path", no_cost, "", ""},
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

Result<Configuration> read_nemo(std::string_view text, const std::string& path, const std::vector<Rename>& renames) {
  auto read = TRY(read_yaml(text, path, renames));
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

struct ConfigClass {
  std::string_view name, shipped;
  std::int64_t layers;
};
// Classes of NeMo 2; those of Megatron-Bridge are called Llama3ModelProvider8B.
constexpr ConfigClass config_classes[] = {{"Llama2Config7B", "llama-2-7b", 32},
                                          {"Llama2Config70B", "llama-2-70b", 80},
                                          {"Llama3Config8B", "llama-3-8b", 32},
                                          {"Llama31Config8B", "llama-3-8b", 32},
                                          {"Llama3Config70B", "llama-3-70b", 80},
                                          {"Llama31Config70B", "llama-3-70b", 80},
                                          {"Llama31Config405B", "llama-3-405b", 126},
                                          {"MixtralConfig8x7B", "mixtral-8x7b", 32},
                                          {"MixtralConfig8x22B", "mixtral-8x22b", 56},
                                          {"MistralConfig7B", "mistral-7b", 32},
                                          {"DeepSeekV2LiteConfig", "deepseek-v2-lite", 27},
                                          {"DeepSeekV2Config", "deepseek-v2", 60},
                                          {"DeepSeekV3Config", "deepseek-v3", 61},
                                          {"Qwen2Config7B", "qwen2-7b", 28},
                                          {"Qwen25Config72B", "qwen2.5-72b", 80},
                                          {"Qwen3Config8B", "qwen3-8b", 36},
                                          {"Qwen3Config32B", "qwen3-32b", 64},
                                          {"Qwen3Config30B_A3B", "qwen3-30b-a3b", 48},
                                          {"Qwen3Config235B_A22B", "qwen3-235b-a22b", 94},
                                          {"Gemma2Config9B", "gemma-2-9b", 42},
                                          {"Gemma2Config27B", "gemma-2-27b", 46},
                                          {"GPTOSSConfig20B", "gpt-oss-20b", 24},
                                          {"GPTOSSConfig120B", "gpt-oss-120b", 36}};

const ConfigClass* class_of(const std::string& target) {
  std::string name = target.substr(target.rfind('.') + 1);
  const std::string_view provider = "ModelProvider";
  if (const std::size_t at = name.find(provider); at != std::string::npos) name.replace(at, provider.size(), "Config");
  const auto* found = std::ranges::find(config_classes, name, &ConfigClass::name);
  return found == std::end(config_classes) ? nullptr : found;
}

// Keys of a config.json that a recipe changes of its class.
constexpr std::pair<std::string_view, std::string_view> config_keys_of_shape[] = {
    {"shape.layers", "num_hidden_layers"},  {"shape.hidden_size", "hidden_size"},
    {"shape.heads", "num_attention_heads"}, {"shape.query_groups", "num_key_value_heads"},
    {"shape.vocabulary", "vocab_size"},     {"shape.ffn_hidden_size", "intermediate_size"}};

void use_class(const RuleInput& in, const ConfigClass& named) {
  in.use_model({std::string(named.shipped), "", in.draft.integer("model.num_layers").value_or(named.layers)});
  for (const KeyRow& row : nemo_keys) {
    if (!row.key.starts_with("shape.") || row.meaning != value || !in.draft.text(row.name)) continue;
    const auto* key =
        std::ranges::find(config_keys_of_shape, row.key, &std::pair<std::string_view, std::string_view>::first);
    const auto number = key == std::end(config_keys_of_shape) ? std::nullopt : in.draft.integer(row.name);
    if (number)
      in.draft.set(fmt::format("model.{}", key->second), *number, row.name);
    else
      in.draft.not_modeled(row.name, fmt::format("the model is that of {}", named.name));
  }
}

template <class Field>
void set_shape(Draft& draft, std::string_view key, Field& field) {
  if constexpr (requires { field.has_value(); }) {
    if (draft.text(key)) set_shape(draft, key, field.emplace());
  } else if constexpr (std::is_same_v<Field, bool>) {
    field = draft.flag(key).value_or(field);
  } else if constexpr (std::is_same_v<Field, std::int64_t>) {
    field = draft.integer(key).value_or(field);
  } else if constexpr (std::is_same_v<Field, double>) {
    field = draft.number(key).value_or(field);
  } else {
    field = draft.text(key).value_or(field);
  }
}

// Sets the vocabulary as Megatron pads it.
void pad_vocabulary(Draft& draft, megatron::ModelShape& shape) {
  if (!shape.vocabulary) shape.vocabulary = draft.value("model.vocab_size");
  if (!shape.vocabulary && draft.text("model.tokenizer.type") == "GPT2BPETokenizer") {
    shape.vocabulary = 50257;
    draft.note(Note::Kind::assumed, "model.tokenizer.type", "assumed: a vocabulary of 50257: GPT2BPETokenizer");
  }
  const std::int64_t multiple =
      draft.integer("model.make_vocab_size_divisible_by").value_or(128) * draft.degree("tensor");
  if (shape.vocabulary && multiple > 0) shape.vocabulary = (*shape.vocabulary + multiple - 1) / multiple * multiple;
}

void read_shape(const RuleInput& in) {
  Draft& draft = in.draft;
  if (draft.given("model.config")) return;
  const ConfigClass* named = nullptr;
  for (const char* key : {"config_class", "model._target_"})
    if (const auto target = draft.text(key); target && named == nullptr) named = class_of(*target);
  if (named != nullptr) return use_class(in, *named);
  if (!draft.text("model.num_layers") && !draft.text("model.hidden_size")) return;  // named with what else is missing
  megatron::ModelShape shape;
  for (const KeyRow& row : nemo_keys)
    if (row.meaning == value)
      megatron::visit_shape(shape, [&](std::string_view name, auto& field) {
        if (name == row.key) set_shape(draft, row.name, field);
      });
  shape.grouped_query = draft.text("model.num_query_groups").has_value();
  std::string norm = draft.text("model.normalization").value_or("LayerNorm");
  shape.normalization = norm.starts_with("rms") || norm.starts_with("RMS") ? "RMSNorm" : "LayerNorm";
  if (const auto activation = draft.text("model.activation")) shape.gated = activation->ends_with("swiglu");
  shape.untied = !draft.flag("model.share_embeddings_and_output_weights").value_or(true);
  shape.no_linear_bias = !draft.flag("model.add_bias_linear").value_or(draft.flag("model.bias").value_or(true));
  pad_vocabulary(draft, shape);
  for (const auto& [key, number] : {std::pair{"model.num_layers", shape.layers},
                                    {"model.hidden_size", shape.hidden_size},
                                    {"model.num_attention_heads", shape.heads},
                                    {"model.vocab_size", shape.vocabulary.value_or(0)}})
    if (number < 1 || number > 1'000'000'000)
      return draft.fail(key, "is missing or out of range",
                        "--model names a model, --set model.vocab_size=N the vocabulary");
  const auto config = megatron::config_of(shape);
  if (!config) return draft.fail(config.error());
  for (const std::string& note : config->notes) draft.note(Note::Kind::assumed, "", note);
  in.use_model({"", config->json, shape.layers});
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
  const std::int64_t first = draft.flag("model.account_for_embedding_in_pipeline_split").value_or(false) ? 1 : 0;
  const std::int64_t last = draft.flag("model.account_for_loss_in_pipeline_split").value_or(false) ? 1 : 0;
  const auto layers = first + last > 0 ? in.layers() : std::nullopt;
  const std::int64_t stages = draft.degree("pipeline") * std::max<std::int64_t>(1, chunks);
  if (!layers || stages < 2) return;
  if ((*layers + first + last) % stages != 0)
    return draft.fail("model.account_for_embedding_in_pipeline_split",
                      fmt::format("{} layers with it do not divide over {} stages", *layers, stages));
  draft.set("schedule.layers_per_stage", split_with_ends(*layers, stages, first, last),
            "embedding and loss count as layers");
}

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

void nemo_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  if (const auto length = draft.integer("model.seq_length"); length && !draft.given("batch.sequence_length"))
    draft.set("batch.sequence_length", *length, "model.seq_length");
  read_shape(in);
  read_nemo_degrees(in);
  read_nemo_precision(draft);
  read_sharding(draft);
  read_nemo_recompute(draft);
  read_nemo_rest(draft);
}

}  // namespace

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
          nemo_keys,
          &nemo_rules};
}

}  // namespace plumbline::model::configurations
