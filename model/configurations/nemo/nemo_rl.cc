// NeMo-RL's YAML of GRPO, SFT and DPO, with the files that `defaults` names: keys of
// examples/configs/grpo_math_1B.yaml, sft.yaml and dpo.yaml @00455ac0, which nemo_rl/utils/config.py @017238e5 puts
// together; defaults of nemo_rl/algorithms/grpo.py @002cdc27 (NVIDIA-NeMo/RL). The section of Megatron has the names of
// Megatron-Core.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "model/base/text_file.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

namespace fs = std::filesystem;
using enum Meaning;

constexpr KeyRow nemo_rl_rows[] = {
#include "model/configurations/detail/keys/nemo_rl.def"
};

constexpr SilentKey nemo_rl_silent[] = {{"rollout.prompts", "grpo.num_prompts_per_step", "32"},
                                        {"rollout.answers", "grpo.num_generations_per_prompt", "16"}};
constexpr std::string_view kBases = "defaults", kMegatron = "policy.megatron_cfg.", kDTensor = "policy.dtensor_cfg.";

// Reads a file behind those that it names as its defaults; of a key the last one holds. Lines of others are not kept.
Result<std::vector<Entry>> read_with_bases(const Source& source, int depth) {
  constexpr int deepest = 8;
  constexpr std::uintmax_t largest = 1 << 20;
  auto read = TRY(read_yaml(source));
  std::vector<Entry> all;
  const Entry* bases = read.find(kBases);
  std::vector<std::string> names = bases == nullptr ? std::vector<std::string>() : bases->items;
  if (bases != nullptr && !bases->value.empty()) names.push_back(bases->value);
  const auto merge = [&all](std::vector<Entry> more) {
    std::set<std::string_view> written;
    for (const Entry& entry : more) written.insert(entry.written);
    std::erase_if(all, [&written](const Entry& one) { return written.contains(one.written); });
    std::ranges::move(more, std::back_inserter(all));
  };
  for (const std::string& name : names) {
    std::error_code ignored;
    const std::string path = (fs::path(source.path).parent_path() / name).lexically_normal().string();
    if (depth == deepest || !fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) > largest)
      return wrong_input_at(source.path, bases->line, std::string(kBases),
                            fmt::format("'{}' is no file of a MiB at most, or {} files deep", path, deepest),
                            "put it there, as it lies in NeMo-RL");
    const std::string text = TRY(read_text_file(path));
    auto base = TRY(read_with_bases({text, path, source.renames, "", {}}, depth + 1));
    for (Entry& entry : base) entry.line = 0;
    merge(std::move(base));
  }
  merge(std::move(read.entries));
  return all;
}

Result<Configuration> read_nemo_rl(const Source& source) {
  Configuration read{source.path, TRY(read_with_bases(source, 0))};
  resolve_references(read.entries);
  const auto is_on = [&read](const std::string& key) {
    const auto found = std::ranges::find(read.entries, key, &Entry::written);
    return found != read.entries.end() && lower_case(found->value) == "true";
  };
  const bool megatron = is_on(std::string(kMegatron) + "enabled");
  const bool fp8 = is_on(std::string(kMegatron) + "fp8_cfg.enabled");
  for (Entry& entry : read.entries) {
    entry.unread = entry.value.starts_with("${");
    const bool of_other = entry.written.starts_with(megatron ? kDTensor : kMegatron);
    if ((of_other && !entry.written.ends_with("_cfg.enabled")) ||
        (!fp8 && entry.written.find(".fp8_cfg.") != std::string::npos))
      entry.key = "unused";
    if (entry.key == "precision.precision") entry.value = number_format(entry.value);
  }
  return read;
}

void read_dtensor(const RuleInput& in) {
  Draft& draft = in.draft;
  const Precision gemm = plain_precision(draft.text("precision.precision").value_or("bf16"));
  set_precision(draft, gemm, "precision.precision");
  // FSDP2 with parameters of FP32, whose gradients are reduced in FP32 (nemo_rl/models/policy/dtensor_init.py).
  draft.set("precision.gradients", "fp32", "shards of FP32 parameters");
  draft.set("precision.gradient_reduce", "fp32", "shards of FP32 parameters");
  draft.set("parallelism.zero_stage", std::int64_t{3}, "FSDP2");
  const std::string_view kept = "policy.dtensor_cfg.activation_checkpointing";
  draft.set("recompute.policy", draft.flag(kept).value_or(false) ? "full" : "none", kept);
  if (draft.degree("context") > 1) draft.set("parallelism.context_method", "ring", "PyTorch's context parallelism");
  if (const std::string_view key = "policy.dtensor_cfg.cpu_offload"; draft.flag(key).value_or(false)) {
    draft.set("offload.optimizer", true, key);
    draft.not_modeled(key, "parameters and gradients stay on the GPU");
  }
  if (const std::string_view key = "policy.optimizer.name"; !contains(draft.text(key).value_or("Adam"), "Adam"))
    draft.not_modeled(key, "the optimizer is Adam with states of FP32");
  draft.set("stack.name", "pytorch-fsdp-eager", "policy.dtensor_cfg.enabled");
}

// Sets the GPUs of both halves and where answers are generated.
void read_nemo_rl_gpus(Draft& draft, bool generates) {
  const std::string colocated = "policy.generation.colocated.", asynchronous = "grpo.async_grpo.";
  const std::int64_t nodes = draft.integer("cluster.num_nodes").value_or(1);
  const std::int64_t each = draft.integer("cluster.gpus_per_node").value_or(8);
  std::int64_t generating = 0;
  if (generates && !draft.flag(colocated + "enabled").value_or(true)) {
    const auto own_nodes = draft.integer(colocated + "resources.num_nodes");
    const auto own_gpus = draft.integer(colocated + "resources.gpus_per_node");
    generating = nodes == 1 ? own_gpus.value_or(each / 2)
                            : bounded_product({own_nodes.value_or(nodes / 2), own_gpus.value_or(each)});
    const bool ahead = draft.flag(asynchronous + "enabled").value_or(false);
    draft.set("rollout.placement", ahead ? "asynchronous" : "split", colocated + "enabled");
    draft.set("rollout.gpus", generating, colocated + "resources.num_nodes");
    if (ahead)
      draft.set("rollout.staleness", draft.integer(asynchronous + "max_trajectory_age_steps").value_or(1),
                asynchronous + "max_trajectory_age_steps");
  }
  draft.set("cluster.gpus", bounded_product({nodes, each}) - generating, "cluster.num_nodes x cluster.gpus_per_node");
}

void read_grpo(Draft& draft) {
  const std::int64_t longest = draft.integer("policy.max_total_sequence_length").value_or(0);
  const auto micro = draft.integer("policy.train_micro_batch_size");
  const std::string_view sampling = "grpo.use_dynamic_sampling", ratio = "loss_fn.force_on_policy_ratio",
                         skipped = "grpo.skip_reference_policy_logprobs_calculation",
                         newest = "policy.generation.max_new_tokens";
  const bool filters = draft.flag(sampling).value_or(false);
  set_silent_keys(draft, nemo_rl_silent);
  const std::int64_t most = std::max<std::int64_t>(1, longest - draft.value("rollout.prompt_tokens").value_or(0));
  draft.set("rollout.max_answer_tokens", std::min(draft.integer(newest).value_or(most), most), newest);
  read_rollout_algorithm(draft, filters, false, sampling, !draft.flag(skipped).value_or(false), skipped);
  if (filters)
    draft.set("rollout.oversampling", draft.number("grpo.batch_multiplier").value_or(1), "grpo.batch_multiplier");
  if (draft.flag(ratio).value_or(false) && !draft.text("grpo.seq_logprob_error_threshold"))
    draft.set("rollout.old_log_probs", false, ratio);
  if (const auto steps = draft.integer("grpo.max_num_steps"); steps && *steps > 0 && *steps < 1'000'000)
    draft.set("rollout.steps", *steps, "grpo.max_num_steps");
  if (draft.integer("grpo.max_rollout_turns").value_or(1) > 1)
    draft.not_modeled("grpo.max_rollout_turns", "an answer is generated in one turn");
  const std::string_view name = "policy.generation.backend", weights = "policy.generation.vllm_cfg.precision";
  const std::string backend = draft.text(name).value_or("vllm");
  const bool known = backend == "vllm" || backend == "sglang" || backend == "trtllm";
  draft.set("inference.engine", backend == "trtllm" ? "tensorrt-llm" : known ? backend : "vllm", name);
  if (!known) draft.not_modeled(name, "the engine is vLLM");
  draft.set("inference.weights", draft.text(weights).value_or("") == "fp8" ? "fp8" : "bf16", weights);
  std::optional<std::int64_t> packed;
  std::string tokens;
  for (const std::string part : {"policy.sequence_packing.", "policy.dynamic_batching."})
    if (draft.flag(part + "enabled").value_or(false) && !packed) {
      tokens = part + "train_mb_tokens";
      packed = draft.integer(tokens).value_or(bounded_product({longest, micro.value_or(1)}));
    }
  read_rollout_samples(
      draft, {bounded_product({draft.value("rollout.prompts").value_or(0), draft.value("rollout.answers").value_or(0)}),
              draft.integer("policy.train_global_batch_size").value_or(0), "policy.train_global_batch_size", longest,
              "policy.max_total_sequence_length", packed, tokens, micro, "policy.train_micro_batch_size"});
}

// Sets the batch of SFT and DPO, which counts pairs.
void read_nemo_rl_batch(Draft& draft, bool pairs) {
  const std::int64_t answers = pairs ? 2 : 1;
  for (const auto& [plan_key, key] : {std::pair{"batch.global_batch_size", "policy.train_global_batch_size"},
                                      std::pair{"batch.micro_batch_size", "policy.train_micro_batch_size"}})
    if (const auto count = draft.integer(key)) draft.set(plan_key, bounded_product({answers, *count}), key);
  if (const auto length = draft.integer("policy.max_total_sequence_length"))
    draft.set("batch.sequence_length", *length, "policy.max_total_sequence_length");
  if (pairs) draft.set("training.objective", "dpo", "the section dpo");
  draft.note(Note::Kind::assumed, "", "assumed: every sequence has the full length, as with packing");
  read_steps(draft, pairs ? "dpo.max_num_steps" : "sft.max_num_steps");
}

void nemo_rl_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  const auto has = [&draft](std::string_view section) {
    return std::ranges::any_of(draft.configuration().entries,
                               [section](const Entry& entry) { return entry.written.starts_with(section); });
  };
  const bool grpo = has("grpo."), dpo = has("dpo.");
  if (!grpo && !dpo && !has("sft."))
    return draft.fail("", "has none of the sections grpo, sft and dpo, which are read", "other trainings are not");
  read_named_model(in, "policy.model_name");
  read_nemo_rl_gpus(draft, grpo);
  const bool megatron = draft.flag("policy.megatron_cfg.enabled").value_or(false);
  const std::string_view sequence = megatron ? "model.sequence_parallel" : "policy.dtensor_cfg.sequence_parallel";
  if (draft.degree("tensor") > 1) draft.set("parallelism.sequence", draft.flag(sequence).value_or(false), sequence);
  if (megatron)
    read_nemo_training(in);
  else
    read_dtensor(in);
  if (megatron && draft.flag("model.activation_checkpointing").value_or(false))
    draft.set("recompute.policy", "full", "model.activation_checkpointing");
  draft.set("optimizer.gradient_clipping", draft.number("policy.max_grad_norm").value_or(1) > 0,
            "policy.max_grad_norm");
  if (draft.flag("policy.lora_cfg.enabled").value_or(false))
    read_adapters(
        in, {"lora", "policy.lora_cfg.dim",
             draft.flag("policy.lora_cfg.match_all_linear").value_or(false) ? "" : "policy.lora_cfg.target_modules"});
  if (grpo)
    read_grpo(draft);
  else
    read_nemo_rl_batch(draft, dpo);
}

}  // namespace

ConfigurationFormat nemo_rl() {
  return {
      "nemo-rl",
      "NeMo-RL",
      &read_nemo_rl,
      {{"policy.precision", "precision.precision"},
       {"policy.megatron_cfg.enabled", "policy.megatron_cfg.enabled"},
       {"policy.megatron_cfg.optimizer.", "optimizer."},
       {"policy.megatron_cfg.scheduler.", "scheduler."},
       {"policy.megatron_cfg.distributed_data_parallel_config.grad_reduce_in_fp32", "precision.grad_reduce_in_fp32"},
       {"policy.megatron_cfg.distributed_data_parallel_config.", "ddp."},
       {"policy.megatron_cfg.fp8_cfg.fp8", "model.fp8"},
       {"policy.megatron_cfg.fp8_cfg.fp8_recipe", "model.fp8_recipe"},
       {"policy.megatron_cfg.peft.", "policy.lora_cfg."},
       {"policy.dtensor_cfg.lora_cfg.", "policy.lora_cfg."},
       {"policy.megatron_cfg.", "model."}},
      table_of(nemo_rl_rows),
      &nemo_rl_rules,
      &nemo_row};
}

}  // namespace plumbline::model::configurations
