// LLaMA-Factory, axolotl and ms-swift, which are configured as the trainer of Hugging Face. Their table is one: keys
// have LLaMA-Factory's names (hiyouga/LLaMA-Factory src/llamafactory/hparams) and those of
// transformers.TrainingArguments, those of FSDP accelerate's.
#include <algorithm>
#include <array>
#include <bit>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow trainer_keys[] = {
#include "model/configurations/detail/keys/trainers.def"
};

// What a file leaves open: LLaMA-Factory hparams/finetuning_args.py @00577a85, model_args.py and data_args.py; axolotl
// utils/schemas/config.py @002a637c; ms-swift docs/source_en/Instruction/Command-line-parameters.md @001320d0.
struct TrainerDefaults {
  std::string_view program, finetuning;
  std::int64_t length, micro_batch;  // length 0: that of the model
  bool checkpointing;
};
constexpr TrainerDefaults trainer_defaults[] = {
    {"LLaMA-Factory", "lora", 2048, 8, true}, {"axolotl", "full", 512, 1, false}, {"ms-swift", "lora", 0, 1, true}};

std::string in_case(std::string text, char first, char other) {
  for (char& letter : text)
    if (letter >= first && letter <= first + 25) letter = static_cast<char>(letter - first + other);
  return text;
}

// What starts a training whose configuration is the options behind it.
constexpr std::string_view launchers[] = {"swift sft",        "swift rlhf",        "swift pt",
                                          "swift/cli/sft.py", "swift/cli/rlhf.py", "llamafactory-cli train",
                                          "train_bash.py",    "src/train.py"};

// Returns the options of a launch script, with the processes that it or its launcher starts.
Result<Configuration> read_trainer_script(const Source& source) {
  const auto [words, first, variables] = TRY(read_launch(source, launchers));
  if (first < words.size() && !words[first].text.starts_with("--"))
    return wrong_input_at(source.path, words[first].line, "", fmt::format("trains by {}", words[first].text),
                          "import that file");
  Configuration read{source.path, options_of(words, first, source.renames)};
  const std::vector<Rename> counts = {{"nproc_per_node", "NPROC_PER_NODE"},
                                      {"num_gpus", "NPROC_PER_NODE"},
                                      {"num_processes", "NPROC_PER_NODE"},
                                      {"nnodes", "NNODES"},
                                      {"num_nodes", "NNODES"}};
  const megatron::Command before(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  for (Entry& option : options_of(before, 0, counts)) {
    if (option.key != "NPROC_PER_NODE" && option.key != "NNODES") continue;
    if (option.is_list) option.value = option.items.front();  // the program is behind it
    option.is_list = false;
    read.entries.push_back(std::move(option));
  }
  for (const char* key : {"NPROC_PER_NODE", "NNODES", "CELOSS_PARALLEL_SIZE"})
    if (const auto found = variables.find(key); found != variables.end() && read.find(key) == nullptr)
      read.entries.push_back({key, key, found->second, {}, 0});
  return read;
}

// Gives FSDP's words the keys that accelerate has for them.
Result<Configuration> read_trainer(const Source& source) {
  auto yaml = read_yaml(source);
  const bool script =
      !yaml && std::ranges::any_of(launchers, [&](std::string_view one) { return contains(source.text, one); });
  auto read = TRY(script ? read_trainer_script(source) : std::move(yaml));
  TRY(add_deepspeed_file(source.path, "deepspeed", read));
  const Entry* found = read.find("fsdp");
  if (found == nullptr) return read;
  const Entry words = *found;
  std::string text = fmt::format("{} {}", words.value, fmt::join(words.items, " "));
  for (const std::string_view word : split_at(text, ' ')) {
    if (word == "offload")
      read.entries.push_back({"fsdp_config.fsdp_offload_params", words.written, "true", {}, words.line});
    if (contains(word, "shard") && read.find("fsdp_config.fsdp_sharding_strategy") == nullptr)
      read.entries.push_back(
          {"fsdp_config.fsdp_sharding_strategy", words.written, in_case(std::string(word), 'a', 'A'), {}, words.line});
  }
  return read;
}

// Whether a file trains on pairs of answers, and whether what it learns reads log-probabilities of a reference model:
// every loss of pairs does but three (hiyouga/LLaMA-Factory src/llamafactory/hparams/finetuning_args.py,
// use_ref_model), and a reward model, which learns which answer is better, has none.
struct Pairs {
  bool trained = false, reference = false;
};

constexpr std::string_view kStage = "stage", kRewardModel = "rm";

// axolotl's `reward_model: true` is a stage without a name.
bool trains_rewards(const Draft& draft) {
  const std::string named = draft.text("reward_model").value_or("");
  return draft.program() == "axolotl" && (named == "true" || named == "True");
}

std::string stage_of(const Draft& draft) {
  return trains_rewards(draft) ? std::string(kRewardModel) : draft.text(kStage).value_or("sft");
}

Pairs pairs_of(const Draft& draft) {
  constexpr std::array<std::string_view, 4> alone = {"orpo", "simpo", "cpo", kRewardModel};
  const std::string stage = stage_of(draft);
  const std::string loss = stage == "dpo" ? draft.text("pref_loss").value_or(stage) : stage;
  const bool without = std::ranges::find(alone, loss) != alone.end();
  return {without || stage == "dpo" || stage == "ipo", !without};
}

void read_objective(Draft& draft) {
  const std::string_view stored = "precompute_ref_log_probs";
  const std::string stage = stage_of(draft);
  if (const Pairs pairs = pairs_of(draft); pairs.trained) {
    draft.set("training.objective", "dpo", kStage);
    if (!pairs.reference)
      draft.set("training.reference", "precomputed", "its loss has no reference model");
    else if (draft.flag(stored).value_or(false))
      draft.set("training.reference", "precomputed", stored);
    if (stage == kRewardModel)
      draft.not_modeled(trains_rewards(draft) ? "reward_model" : kStage,
                        "an answer has one reward; head and loss are those of a vocabulary, which is too much");
  } else if (stage != "sft" && stage != "pt") {
    if (!draft.given("training.objective"))
      draft.fail(kStage, fmt::format("no plan trains by {}", stage),
                 "--set training.objective=dpo predicts pairs of answers next to a reference model, =next-token text");
    draft.not_modeled(kStage, "what trains is training.objective");
  }
}

void read_trainer_batch(const RuleInput& in, const TrainerDefaults& defaults) {
  Draft& draft = in.draft;
  const std::int64_t answers = pairs_of(draft).trained ? 2 : 1;  // of a sample, each a sequence
  const std::int64_t stated = draft.integer("cutoff_len").value_or(defaults.length);
  if (stated > 0) draft.set("batch.sequence_length", stated, "cutoff_len");
  const std::int64_t micro = draft.integer("per_device_train_batch_size").value_or(defaults.micro_batch);
  draft.set("batch.micro_batch_size", bounded_product({answers, micro}), "per_device_train_batch_size");
  const auto data = draft.data_parallel();
  const std::int64_t once = bounded_product({data.value_or(1), draft.value("batch.micro_batch_size").value_or(micro)});
  const std::int64_t fewest = 16 * answers;  // of ms-swift, where nothing states the accumulation
  if (draft.program() == "ms-swift" && data && once > 0 && !draft.text("gradient_accumulation_steps"))
    draft.set("batch.global_batch_size", once < fewest ? ceil_div(fewest, once) * once : once, "at least 16 sequences");
  read_batch(draft, {"", "", "gradient_accumulation_steps"});
  read_steps(draft, "max_steps");
  if (!draft.flag("packing").value_or(false))
    draft.note(Note::Kind::assumed, "packing", "assumed: every sequence has the full length, as with packing");
}

Precision read_trainer_precision(Draft& draft) {
  const std::string stored = draft.text("torch_dtype").value_or("bfloat16");
  const bool half = draft.flag("fp16").value_or(stored == "float16");
  const bool brain = draft.flag("bf16").value_or(stored == "bfloat16") || draft.flag("pure_bf16").value_or(false);
  // As accelerate's mixed_precision: FP8 of torchao, or of Transformer Engine.
  if (draft.flag("fp8").value_or(false)) {
    set_precision(draft, Precision::fp8_tensor, "fp8");
    draft.set("precision.scaling", draft.text("fp8_backend").value_or("auto") == "te" ? "delayed" : "current",
              "fp8_backend");
    return Precision::fp8_tensor;
  }
  const Precision gemm = half ? Precision::fp16 : brain ? Precision::bf16 : Precision::fp32;
  set_precision(draft, gemm, half ? "fp16" : draft.configuration().find("bf16") != nullptr ? "bf16" : "torch_dtype");
  return gemm;
}

// A section of DeepSpeed in the file has the keys of its own file.
const KeyRow* trainer_row(std::string_view key) {
  constexpr std::string_view section = "deepspeed.";
  return key.starts_with(section) ? deepspeed_row(key.substr(section.size())) : accelerate_row(key);
}

// Sets the stage that the name of DeepSpeed's file has, where the file is not there.
void read_zero_of_name(const RuleInput& in, Precision gemm) {
  Draft& draft = in.draft;
  const std::string name = draft.text("deepspeed").value_or("");
  std::int64_t stage = -1;
  for (std::int64_t i = 0; i <= 3; ++i)
    for (const std::string_view word : {"z", "zero", "zero_", "stage"})
      if (contains(std::string_view(name).substr(name.rfind('/') + 1), fmt::format("{}{}", word, i))) stage = i;
  if (stage < 0 && !draft.given("parallelism.zero_stage"))
    return draft.fail("deepspeed", fmt::format("the name '{}' has no stage, and the file is not read", name),
                      "--set parallelism.zero_stage=N states it; import deepspeed reads the file");
  draft.set("parallelism.zero_stage", stage, "deepspeed");
  // Of axolotl's files zero3_bf16_cpuoffload_params.json leaves the optimizer's states on the GPU.
  if (contains(name, "offload") && !contains(name, "offload_params")) draft.set("offload.optimizer", true, "deepspeed");
  if (contains(name, "offload") && stage == 3) draft.not_modeled("deepspeed", "parameters stay on the GPU");
  read_zero_buffers(in, {}, gemm);
  draft.note(Note::Kind::assumed, "deepspeed", "assumed: DeepSpeed's defaults but for the stage");
}

// Liger computes head, loss and gradient of as many tokens at a time as make their logits no larger than the hidden
// states: a power of 2 (linkedin/Liger-Kernel src/liger_kernel/ops/fused_linear_cross_entropy.py @00eba634), in place.
// Cut cross-entropy has no logits in memory; its plugin has it on (axolotl src/axolotl/integrations/cut_cross_entropy/
// args.py of 2026).
void read_trainer_loss(const RuleInput& in) {
  Draft& draft = in.draft;
  bool cuts = false;
  for (const std::string& plugin : draft.list("plugins")) {
    const bool is_cut = contains(plugin, "CutCrossEntropy");
    cuts = cuts || is_cut;
    const bool has_keys = contains(plugin, "LigerPlugin") || contains(plugin, "ExpertParallelPlugin");
    if (!is_cut && !has_keys) draft.not_modeled("plugins", "kernels are those of the stack");
  }
  const auto stated = draft.flag("cut_cross_entropy");
  if (stated.value_or(cuts)) return draft.set("loss.kernel", "linear", stated ? "cut_cross_entropy" : "plugins");
  if (draft.flag("liger_cross_entropy").value_or(false))
    draft.set("loss.kernel", "fused_in_place", "liger_cross_entropy");
  const bool own = draft.flag("liger_fused_linear_cross_entropy").value_or(false);
  const std::string_view key = own ? "liger_fused_linear_cross_entropy" : "enable_liger_kernel";
  const auto model = in.architecture();
  const std::int64_t tokens = bounded_product(
      {draft.value("batch.micro_batch_size").value_or(0), draft.value("batch.sequence_length").value_or(0)});
  if (!draft.flag(key).value_or(false)) return;
  draft.not_modeled(key, "kernels but those of the loss are those of the stack");
  if (!model || model->hidden_size < 1 || tokens < 1) return;
  const std::int64_t parts = ceil_div(model->vocabulary, model->hidden_size);
  const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(tokens, parts))));
  draft.set("loss.kernel", "fused_in_place", key);
  draft.set("loss.chunks", ceil_div(tokens, rows), key);
}

void read_lora_targets(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view key = "lora_target", all = "lora_target_linear";
  const bool axolotl = draft.program() == "axolotl";
  const std::vector<std::string> modules = draft.list(key);
  if (draft.flag(all).value_or(false) || names_module(modules, {"all"}) || (modules.empty() && !axolotl))
    return draft.set("training.targets", "all-linear", draft.flag(all) ? all : key);
  if (modules.empty()) {
    draft.not_modeled(key, "adapters are next to all GEMMs of attention; PEFT has a list for each model");
    return draft.set("training.targets", std::vector<std::string>{"attention"}, "no module is named");
  }
  const AdapterTargets layers = read_adapter_layers(in, key);
  const bool whole = (!layers.attention || modules.size() >= 4) &&
                     (!layers.mlp || names_module(modules, {"down", "w2", "fc2", "4h_to_h", "c_proj"}));
  if (!whole) draft.not_modeled(key, "all GEMMs of attention, or of an MLP, have adapters");
}

// Returns whether the training is one that is predicted: of all weights, or of LoRA's adapters.
bool read_finetuning(const RuleInput& in, const TrainerDefaults& defaults) {
  Draft& draft = in.draft;
  const std::string_view key = "finetuning_type", rank = "lora_rank";
  const std::string method = draft.text(key).value_or(std::string(defaults.finetuning));
  const auto bits = draft.integer("quantization_bit");
  // Weights that are stored in 4 bits, as the model's name has it.
  const std::string model = lower_case(draft.text("model_name_or_path").value_or(""));
  const bool stored = std::ranges::any_of(std::array{"gptq", "awq", "aqlm", "bnb-4bit", "int4", "nf4"},
                                          [&model](std::string_view word) { return contains(model, word); });
  const bool four = draft.flag("load_in_4bit").value_or(false) || bits == 4 || (!bits && stored);
  if (bits && (bits != 4 || method == "full")) draft.not_modeled("quantization_bit", "weights have 16 bits");
  if (method == "full") return true;
  const bool dora = draft.flag("use_dora").value_or(false);
  if ((method != "lora" && method != "qlora") || dora)
    return !refuse_adapter(draft, dora ? "use_dora" : key, dora ? "DoRA" : method);
  draft.set("training.method", four || method == "qlora" ? "qlora" : "lora",
            !four                                        ? key
            : draft.flag("load_in_4bit").value_or(false) ? "load_in_4bit"
            : bits                                       ? "quantization_bit"
                                                         : "model_name_or_path");
  if (draft.program() == "axolotl" && !draft.integer(rank) && !draft.given("training.rank")) {
    draft.fail(rank, "the rank of the adapters (lora_r) is not stated", "--set training.rank=N states it");
    return false;
  }
  constexpr std::int64_t silent = 8;  // of LLaMA-Factory and ms-swift
  draft.set("training.rank", draft.integer(rank).value_or(silent), rank);
  if (!draft.given("training.targets")) read_lora_targets(in);
  return true;
}

// Sets how context ranks reach each other's keys. axolotl's `context_parallel_size` with DeepSpeed is DeepSpeed's
// sequence parallelism (setup_parallelism_envs of axolotl src/axolotl/utils/trainer.py of 2026), its older
// `sequence_parallel_degree` ring attention.
void read_trainer_context(const RuleInput& in, bool zero) {
  Draft& draft = in.draft;
  const std::string_view spread = "sequence_parallel_size", backend = "context_parallel.backend",
                         ring = "ring_attn_func";
  const std::string_view mode = "sequence_parallel_mode";
  const std::string kind = draft.text(mode).value_or("");  // of forks of LLaMA-Factory
  const bool ring_of_fork = contains(kind, "ring");
  if (const auto degree = draft.integer(spread); degree && *degree > 1 && (ring_of_fork || kind == "llama3")) {
    draft.set("parallelism.context", *degree, spread);
    return draft.set("parallelism.context_method", ring_of_fork ? "ring" : "all-gather", mode);
  }
  read_ulysses(in, spread);
  if (draft.degree("context") < 2 || draft.integer(spread).value_or(1) > 1) return;
  const Entry* size = draft.configuration().find("parallelism_config.parallelism_config_cp_size");
  const bool of_deepspeed = zero && size != nullptr && size->written == "context_parallel_size" && !draft.text(ring);
  const std::string named = draft.text(backend).value_or("");
  if (named == "ring") return draft.set("parallelism.context_method", named, backend);
  const Entry* entry = draft.configuration().find(backend);
  if (entry != nullptr && entry->value != "ulysses")  // usp, auto
    draft.not_modeled(backend, "all ranks send heads; keys and values may pass around rings too");
  if (entry != nullptr || of_deepspeed)
    return draft.set("parallelism.context_method", "all-to-all", entry != nullptr ? backend : size->key);
  draft.set("parallelism.context_method",
            contains(draft.text(ring).value_or("varlen_llama3"), "llama3") ? "all-gather" : "ring", ring);
}

// Sets where the recomputation of a layer ends. LLaMA-Factory states reentrant checkpoints itself (model_args.py);
// transformers 5 has others than before where nothing is stated (huggingface/transformers pull request 43203).
void read_reentrance(Draft& draft, bool checkpoints) {
  constexpr std::string_view key = "gradient_checkpointing_kwargs.use_reentrant", plan_key = "recompute.early_stop";
  auto reentrant = draft.flag(key);
  if (!reentrant) reentrant = draft.flag("use_reentrant_gc");
  if (!checkpoints) return;
  if (reentrant || draft.program() == "LLaMA-Factory") return draft.set(plan_key, !reentrant.value_or(true), key);
  draft.assume(plan_key, false, fmt::format("the default of {} before transformers 5", key), "true");
}

void trainer_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  const auto& defaults = *std::ranges::find(trainer_defaults, draft.program(), &TrainerDefaults::program);
  read_named_model(in, "model_name_or_path");
  if (const auto processes = draft.integer("NPROC_PER_NODE"))
    draft.set("cluster.gpus", bounded_product({*processes, draft.integer("NNODES").value_or(1)}), "NPROC_PER_NODE");
  else if (const auto workers = draft.integer("ray_num_workers"))
    draft.set("cluster.gpus", *workers, "ray_num_workers");
  // Megatron's degrees, which hold where USE_MCA is set (LLaMA-Factory examples/megatron); the trainer has none.
  for (const char* degree :
       {"pipeline_model_parallel_size", "tensor_model_parallel_size", "expert_model_parallel_size"})
    if (draft.integer(degree).value_or(1) > 1)
      return draft.fail(degree, "is an argument of Megatron's, whose trainer (USE_MCA=1) is not read",
                        "plumbline import megatron reads these arguments in a script, as of pretrain_gpt.py");
  if (!read_finetuning(in, defaults)) return;
  const bool zero = draft.text("deepspeed") || has_deepspeed_section(draft);
  read_deepspeed_section_degrees(in);
  read_trainer_context(in, zero);
  // Experts of axolotl lie over ranks of their own dimension, and DeepEP sends the tokens (src/axolotl/integrations/
  // expert_parallel/README.md @07d1cbc3).
  const std::string_view experts = "expert_parallel_size";
  if (const auto degree = draft.integer(experts); degree && *degree > 1) {
    draft.set("parallelism.expert", *degree, experts);
    draft.set("stack.dispatcher", "deepep", experts);
    draft.not_modeled(experts, "experts are sharded over their replicas too");
  }
  const Precision gemm = read_trainer_precision(draft);
  // Examples name what they do not use: `fsdp:` and `fsdp_config:` without a value.
  const bool sharded = std::ranges::any_of(draft.configuration().entries, [](const Entry& entry) {
    return entry.key.starts_with("fsdp") && (!entry.items.empty() || (!entry.value.empty() && entry.value != "false"));
  });
  if (has_deepspeed_section(draft)) {
    read_zero(draft, kDeepspeedSection, 0);
    read_zero_buffers(in, kDeepspeedSection, gemm);
  } else if (zero)
    read_zero_of_name(in, gemm);
  else if (sharded)
    read_fsdp(draft, gemm);
  else if (refuse_shards(draft))
    draft.assume("parallelism.zero_stage", std::int64_t{0},
                 "the file has neither DeepSpeed nor FSDP, which the launcher's configuration may have", "3");
  if (stage_of(draft) == "grpo") {
    read_trl_grpo(in);
  } else {
    read_objective(draft);
    read_trainer_batch(in, defaults);
  }
  read_trainer_loss(in);
  draft.set("optimizer.gradient_clipping", draft.number("max_grad_norm").value_or(1) > 0, "max_grad_norm");
  const std::string kept = draft.text("gradient_checkpointing").value_or("");  // axolotl's words for the host
  const bool offloads = kept.starts_with("offload") || kept == "unsloth";
  if (offloads) draft.not_modeled("gradient_checkpointing", "inputs of layers stay on the GPU");
  const bool checkpoints =
      offloads || !draft.flag("disable_gradient_checkpointing")
                       .value_or(!draft.flag("gradient_checkpointing").value_or(defaults.checkpointing));
  if (!draft.given("recompute.policy"))
    draft.set("recompute.policy", checkpoints ? "full" : "none", "gradient_checkpointing");
  read_reentrance(draft, checkpoints);
  if (!zero && draft.flag("pure_bf16").value_or(false))  // weights that train have no copy of FP32
    for (const char* key : {"precision.master_weights", "precision.optimizer_moments", "precision.gradients"})
      draft.set(key, "bf16", "pure_bf16");
  const std::string optimizer = draft.text("optim").value_or("adamw_torch");
  if (const bool own = draft.flag("use_muon").value_or(false); own || optimizer == "muon") {
    draft.set("optimizer.kind", "muon", own ? "use_muon" : "optim");
  } else if (contains(optimizer, "adam") && contains(optimizer, "8bit")) {
    draft.set("precision.optimizer_moments", "fp8", "optim");  // as many bytes, but for a scale per 256 elements
    draft.not_modeled("optim", "moments of embeddings have 8 bits too, and all stay on the GPU");
  } else if (!contains(optimizer, "adam") || contains(optimizer, "bit")) {
    draft.not_modeled("optim", "the optimizer is Adam with states of FP32");
  }
  draft.set("stack.name",
            zero                                          ? "deepspeed"
            : draft.flag("torch_compile").value_or(false) ? "torchtitan-compile"
                                                          : "pytorch-fsdp-eager",
            zero ? "deepspeed" : "torch_compile");
}

ConfigurationFormat trainer(std::string_view name, std::string_view program, std::vector<Rename> renames) {
  // Sections of FSDP have the names of accelerate, with and without their prefix.
  renames.insert(renames.end(), {{"fsdp_version", "fsdp_config.fsdp_version"},
                                 {"fsdp_config.fsdp_", "fsdp_config.fsdp_"},
                                 {"fsdp_config.", "fsdp_config.fsdp_"}});
  return {name, program, &read_trainer, std::move(renames), table_of(trainer_keys), &trainer_rules, &trainer_row};
}

}  // namespace

ConfigurationFormat llama_factory() { return trainer("llama-factory", "LLaMA-Factory", {}); }

ConfigurationFormat axolotl() {
  return trainer("axolotl", "axolotl",
                 {{"base_model", "model_name_or_path"},
                  {"sequence_len", "cutoff_len"},
                  {"micro_batch_size", "per_device_train_batch_size"},
                  {"adapter", "finetuning_type"},
                  {"lora_r", "lora_rank"},
                  {"lora_target_modules", "lora_target"},
                  {"bfloat16", "pure_bf16"},
                  {"float16", "fp16"},
                  {"sample_packing", "packing"},
                  {"optimizer", "optim"},
                  {"rl", "stage"},
                  {"trl.", ""},
                  {"vllm.", "vllm_"},
                  {"tensor_parallel_size", "parallelism_config.parallelism_config_tp_size"},
                  {"context_parallel_size", "parallelism_config.parallelism_config_cp_size"},
                  {"context_parallel.size", "parallelism_config.parallelism_config_cp_size"},
                  {"sequence_parallel_degree", "parallelism_config.parallelism_config_cp_size"},
                  {"dp_shard_size", "parallelism_config.parallelism_config_dp_shard_size"},
                  {"dp_replicate_size", "parallelism_config.parallelism_config_dp_replicate_size"}});
}

ConfigurationFormat ms_swift() {
  return trainer("ms-swift", "ms-swift",
                 {{"model", "model_name_or_path"},
                  {"max_length", "cutoff_len"},
                  {"train_type", "finetuning_type"},
                  {"rlhf_type", "stage"},
                  {"max_new_tokens", "max_completion_length"},
                  {"response_length", "max_completion_length"},
                  {"gpu_memory_utilization", "vllm_gpu_memory_utilization"},
                  {"tuner_type", "finetuning_type"},
                  {"target_modules", "lora_target"},
                  {"use_liger_kernel", "enable_liger_kernel"},
                  {"quant_bits", "quantization_bit"}});
}

}  // namespace plumbline::model::configurations
