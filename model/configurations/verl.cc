// verl's reinforcement learning: a launch script with its overrides, or the configuration that Hydra keeps of a run.
// Keys and defaults are those of verl-project/verl verl/trainer/config: ppo_trainer.yaml @05a1edd6, actor/actor.yaml
// @018f23b5, actor/dp_actor.yaml @0db13434, data/legacy_data.yaml @35c12f9e, model/hf_model.yaml @0db13434,
// rollout/rollout.yaml @005f2732, algorithm/rollout_correction.yaml @0482624a, optim/fsdp.yaml @4b4fd31f,
// optim/megatron.yaml @13a5d76f, engine/fsdp.yaml @01d4d766 and engine/megatron.yaml @093191fa.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/configurations/detail/collector.h"
#include "model/configurations/detail/shared.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow verl_rows[] = {
#include "model/configurations/detail/keys/verl.def"
};

constexpr std::string_view kPolicyPath = "actor_rollout_ref.model.path";
constexpr std::string_view kMachine = "DEVICE";  // a variable of scripts, which ask the machine whether it has NPUs

std::string without_quotes(std::string_view text) {
  const bool quoted = text.size() > 1 && (text.front() == '"' || text.front() == '\'') && text.front() == text.back();
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

// Returns the entry of an override of Hydra, such as +data.train_batch_size=512 or --config-name=ppo_trainer; a word
// that is none has no key. A path keeps the name at its end where its folder is not known.
Entry entry_of(const megatron::Word& word, const std::vector<Rename>& renames) {
  const std::string_view text = word.text;
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {};
  std::string key(text.substr(0, equals));
  key.erase(0, key.find_first_not_of("+~-"));
  if (text.starts_with("--")) std::ranges::replace(key, '-', '_');
  const std::string value = without_quotes(text.substr(equals + 1));
  Entry entry{with_renames(key, renames), key, value == "null" || value == "None" ? "" : value, {}, word.line};
  entry.is_list = value.starts_with('[') && value.ends_with(']');
  if (entry.is_list) {
    for (const std::string_view item : split_at(std::string_view(value).substr(1, value.size() - 2), ','))
      if (!trimmed(item).empty()) entry.items.push_back(without_quotes(trimmed(item)));
    entry.value.clear();
  }
  const bool named = key == kPolicyPath && value.substr(value.rfind('/') + 1).find('$') == std::string::npos;
  entry.unread = word.condition > 0 || (word.unknown && !named);
  return entry;
}

bool starts_verl(const megatron::Command& command) {
  return std::ranges::any_of(command, [](const megatron::Word& word) {
    return word.text.find(".main_") != std::string::npos || word.text.ends_with("main_ppo.py");
  });
}

Result<Configuration> read_verl_script(const Source& source) {
  const Launch launch = TRY(read_launch(source, &starts_verl));
  Configuration read{source.path, {}};
  if (launch.words.empty())
    return wrong_input_at(source.path, 0, "", "starts no trainer of verl",
                          "a script that runs verl.trainer.main_ppo, or the config.yaml that Hydra keeps of a run");
  for (const megatron::Word& word : launch.words)
    if (Entry entry = entry_of(word, source.renames); !entry.key.empty()) read.entries.push_back(std::move(entry));
  if (source.text.find(kMachine) != std::string_view::npos)
    read.entries.push_back({std::string(kMachine), std::string(kMachine), "gpu", {}, 0});
  return read;
}

// Adds what verl gives Megatron-Core where nothing is stated. Megatron-Bridge leaves gradients in the format of the
// parameters (create_ddp_config() of make_megatron_module() in verl/utils/megatron_utils.py @015c0eaa, defaults of
// NVIDIA/Megatron-LM megatron/core/distributed/distributed_data_parallel_config.py @00119989); mbridge, which
// vanilla_mbridge chooses, has them in FP32 (ISEEKYAN/mbridge mbridge/core/util.py @0ae572a4).
void add_megatron_defaults(Configuration& read) {
  const Entry* vanilla = read.find("model.vanilla_mbridge");
  const bool wide = vanilla != nullptr && (vanilla->value == "True" || vanilla->value == "true");
  const std::pair<const char*, const char*> silent[] = {{"ddp.use_distributed_optimizer", "true"},
                                                        {"precision.precision", "bf16"},
                                                        {"precision.grad_reduce_in_fp32", wide ? "true" : "false"}};
  for (const auto& [key, value] : silent)
    if (read.find(key) == nullptr) read.entries.push_back({key, key, value, {}, 0});
}

bool on_megatron(const Configuration& read) {
  return std::ranges::any_of(read.entries, [](const Entry& entry) {
    const bool engine =
        entry.key == "actor_rollout_ref.actor.strategy" || entry.key == "model_engine" || entry.key == "config_name";
    return engine && entry.value.find("megatron") != std::string::npos;
  });
}

Result<Configuration> read_verl(const Source& source) {
  const bool yaml = source.text.starts_with("actor_rollout_ref:") ||
                    source.text.find("\nactor_rollout_ref:") != std::string_view::npos;
  auto read = TRY(yaml ? read_yaml(source) : read_verl_script(source));
  resolve_references(read.entries);
  for (Entry& entry : read.entries) {
    if (entry.value.starts_with("${") && entry.value.ends_with('}'))
      entry.value.clear();  // of another key that is not in the file, as its own default is
    if (entry.key == "precision.precision") entry.value = number_format(entry.value);
  }
  if (on_megatron(read)) add_megatron_defaults(read);
  return read;
}

// Sets how the policy is trained by FSDP: parameters of FP32, BF16 for what they compute, and gradients reduced in FP32
// (_build_fsdp_module() of verl/workers/engine/fsdp/transformer_impl.py @015bc559).
void read_verl_fsdp(const RuleInput& in) {
  Draft& draft = in.draft;
  read_ulysses(draft, "actor.fsdp.ulysses_sequence_parallel_size");
  draft.set("parallelism.zero_stage", std::int64_t{3}, "actor_rollout_ref.actor.strategy");
  draft.set("parallelism.reshard_after_forward", draft.flag("actor.fsdp.reshard_after_forward").value_or(true),
            "actor.fsdp.reshard_after_forward");
  const auto group = draft.integer("actor.fsdp.fsdp_size"), gpus = draft.value("cluster.gpus");
  if (group && *group > 0 && gpus && *group < *gpus)
    draft.set("parallelism.shard_group", *group, "actor.fsdp.fsdp_size");
  if (draft.flag("actor.fsdp.offload_policy").value_or(false)) {
    draft.set("offload.optimizer", true, "actor.fsdp.offload_policy");
    draft.not_modeled("actor.fsdp.offload_policy", "parameters stay on the GPU");
  }
  const std::string stored = number_format(draft.text("actor.fsdp.model_dtype").value_or("fp32"));
  for (const char* key : {"precision.master_weights", "precision.optimizer_moments", "precision.gradients"})
    draft.set(key, stored, "actor.fsdp.model_dtype");
  const std::string_view reduce = "actor.fsdp.mixed_precision.reduce_dtype",
                         mixed = "actor.fsdp.mixed_precision.param_dtype",
                         param = draft.text(mixed) ? mixed : "actor.fsdp.dtype";
  draft.set("precision.gradient_reduce", number_format(draft.text(reduce).value_or("fp32")), reduce);
  draft.set("precision.gemm", number_format(draft.text(param).value_or("bf16")), param);
  note_deferred_reduction(draft, "actor.fsdp.use_no_sync_for_gradient_accumulation");
  const std::string_view kept = "actor_rollout_ref.model.enable_gradient_checkpointing";
  draft.set("recompute.policy", draft.flag(kept).value_or(true) ? "full" : "none", kept);
  draft.set("stack.name", "pytorch-fsdp-eager", "actor_rollout_ref.actor.strategy");
}

void read_verl_policy(const RuleInput& in) {
  Draft& draft = in.draft;
  if (on_megatron(draft.configuration())) {
    if (draft.degree("tensor") > 1)
      draft.set("parallelism.sequence", draft.flag("model.sequence_parallel").value_or(true),
                "model.sequence_parallel");
    read_nemo_training(in);
    // verl/models/mcore/config_converter.py @880e924e, _build_tf_config() of
    // verl/workers/engine/megatron/transformer_impl.py @0239174e
    if (in.has_experts() && draft.configuration().find("model.moe_token_dispatcher_type") == nullptr)
      draft.set("stack.dispatcher", "alltoall", "of verl's models with experts");
  } else {
    read_verl_fsdp(in);
  }
  const std::string_view clipping = "actor_rollout_ref.actor.optim.clip_grad";  // grad_clip is of the workers before
  draft.set("optimizer.gradient_clipping", draft.number(clipping).value_or(1) > 0, clipping);
  if (draft.flag("actor_rollout_ref.model.use_fused_kernels").value_or(false))
    draft.set("loss.kernel", "linear", "actor_rollout_ref.model.use_fused_kernels");
  const std::string_view rank = "actor_rollout_ref.model.lora_rank";
  if (draft.integer(rank).value_or(0) > 0) read_adapters(in, {"lora", rank, "actor_rollout_ref.model.target_modules"});
  if (!draft.flag("actor_rollout_ref.model.use_remove_padding").value_or(true))
    draft.not_modeled("actor_rollout_ref.model.use_remove_padding", "samples are packed");
}

void read_verl_samples(Draft& draft) {
  const std::string_view prompts_key = "data.train_batch_size", answer_key = "data.max_response_length";
  const std::string_view mini_key = "actor_rollout_ref.actor.ppo_mini_batch_size";
  const std::string_view tokens_key = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu";
  const std::string_view all_key = "actor_rollout_ref.actor.ppo_micro_batch_size";
  std::string_view micro_key = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu";
  const std::int64_t prompts = draft.integer(prompts_key).value_or(1024);
  const std::int64_t prompt = draft.integer("data.max_prompt_length").value_or(512);
  const std::int64_t answer = draft.integer(answer_key).value_or(512);
  draft.set("rollout.prompts", prompts, prompts_key);
  draft.set("rollout.answers", draft.integer("actor_rollout_ref.rollout.n").value_or(1), "actor_rollout_ref.rollout.n");
  draft.set("rollout.max_answer_tokens", answer, answer_key);
  std::optional<std::int64_t> packed, micro = draft.integer(micro_key);
  if (draft.flag("actor_rollout_ref.actor.use_dynamic_bsz").value_or(false))  // as many tokens as it may have
    packed = bounded_product({draft.integer(tokens_key).value_or(16384), draft.degree("context")});
  if (const auto all = draft.integer(all_key), ranks = draft.data_parallel(); !micro && all && ranks) {
    micro = std::max<std::int64_t>(1, *all / *ranks);  // as releases before 2025 count them
    micro_key = all_key;
  }
  read_rollout_samples(draft,
                       {prompts, draft.integer(mini_key).value_or(256), mini_key, prompt + answer,
                        "data.max_prompt_length + data.max_response_length", packed, tokens_key, micro, micro_key});
}

void read_verl_algorithm(Draft& draft) {
  const std::string_view key = "algorithm.adv_estimator", filter = "algorithm.filter_groups.enable";
  const bool critic = draft.text(key).value_or("gae") == "gae", filters = draft.flag(filter).value_or(false);
  const bool in_loss = draft.flag("actor_rollout_ref.actor.use_kl_loss").value_or(false);
  read_rollout_algorithm(draft, filters, critic, filters ? filter : key,
                         in_loss || draft.flag("algorithm.use_kl_in_reward").value_or(false),
                         in_loss ? "actor_rollout_ref.actor.use_kl_loss" : "algorithm.use_kl_in_reward");
  const auto generated = draft.number("data.gen_batch_size"), trained = draft.number("data.train_batch_size");
  if (filters && generated && trained && *trained > 0 && *generated >= *trained)
    draft.set("rollout.oversampling", *generated / *trained, "data.gen_batch_size");
  if (draft.flag("algorithm.rollout_correction.bypass_mode").value_or(false))
    draft.set("rollout.old_log_probs", false, "algorithm.rollout_correction.bypass_mode");
  if (const auto steps = draft.integer("trainer.total_training_steps"); steps && *steps > 0)
    draft.set("rollout.steps", *steps, "trainer.total_training_steps");
}

void read_verl_engines(Draft& draft) {
  const std::string section = "actor_rollout_ref.rollout.";
  const std::string name = draft.text(section + "name").value_or("vllm");
  draft.set("inference.engine", name == "trtllm" ? "tensorrt-llm" : name, section + "name");
  draft.set("inference.weights", draft.text(section + "quantization").value_or("bf16"), section + "quantization");
  draft.set("inference.memory_share", draft.number(section + "gpu_memory_utilization").value_or(0.5),
            section + "gpu_memory_utilization");
  const bool chunks = draft.flag(section + "enable_chunked_prefill").value_or(true);
  draft.set("inference.chunked_prefill_tokens",
            chunks ? draft.integer(section + "max_num_batched_tokens").value_or(8192) : 0,
            section + (chunks ? "max_num_batched_tokens" : "enable_chunked_prefill"));
  draft.set("rollout.tensor", draft.integer(section + "tensor_model_parallel_size").value_or(2),
            section + "tensor_model_parallel_size");
  const bool megatron = on_megatron(draft.configuration());
  const std::string trainer = megatron ? "model." : "actor.fsdp.";
  for (const std::string& nodes : {std::string("rollout.nnodes"), section + "nnodes"}) {
    const auto count = draft.integer(nodes);
    if (!count || *count < 1) continue;
    const std::string each = nodes.substr(0, nodes.rfind('.')) + ".n_gpus_per_node";
    const std::int64_t gpus = draft.integer(each).value_or(draft.integer("trainer.n_gpus_per_node").value_or(8));
    draft.set("rollout.placement", "asynchronous", nodes);
    return draft.set("rollout.gpus", bounded_product({*count, gpus}), nodes);
  }
  const auto leaves = [&](const std::string& part) {
    const std::string target = draft.text(fmt::format("{}offload.{}.target", trainer, part)).value_or("");
    return target.empty() ? draft.flag(trainer + part + "_offload").value_or(false) : target != "none";
  };
  const bool parameters = leaves("param"), optimizer = leaves("optimizer");
  const std::string origin = trainer + (parameters ? "param_offload" : "optimizer_offload");
  draft.set("rollout.offload", parameters || optimizer, origin);
  if (parameters != optimizer) draft.not_modeled(origin, "all that trains is on the host");
}

void verl_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  if (draft.configuration().find(kMachine) != nullptr)
    draft.note(Note::Kind::assumed, "", "assumed: DEVICE = gpu, and the script's own defaults of all other variables");
  read_named_model(in, kPolicyPath);
  draft.set("cluster.gpus",
            bounded_product(
                {draft.integer("trainer.nnodes").value_or(1), draft.integer("trainer.n_gpus_per_node").value_or(8)}),
            "trainer.nnodes x trainer.n_gpus_per_node");
  read_verl_policy(in);
  read_verl_samples(draft);
  read_verl_algorithm(draft);
  read_verl_engines(draft);
}

}  // namespace

ConfigurationFormat verl() {
  return {
      "verl",
      "verl",
      &read_verl,
      {{"actor_rollout_ref.actor.ulysses_sequence_parallel_size", "actor.fsdp.ulysses_sequence_parallel_size"},
       {"actor_rollout_ref.actor.fsdp_config.", "actor.fsdp."},
       {"actor_rollout_ref.actor.megatron.use_distributed_optimizer", "ddp.use_distributed_optimizer"},
       {"actor_rollout_ref.actor.megatron.dtype", "precision.precision"},
       {"actor_rollout_ref.actor.megatron.override_ddp_config.grad_reduce_in_fp32", "precision.grad_reduce_in_fp32"},
       {"actor_rollout_ref.actor.megatron.override_ddp_config.", "ddp."},
       {"actor_rollout_ref.actor.optim.override_optimizer_config.", "optimizer."},
       {"actor_rollout_ref.actor.optim.use_precision_aware_optimizer", "optimizer.use_precision_aware_optimizer"},
       {"actor_rollout_ref.actor.optim.main_grads_dtype", "optimizer.main_grads_dtype"},
       {"actor_rollout_ref.actor.optim.exp_avg_", "optimizer.exp_avg_"},
       {"actor_rollout_ref.actor.megatron.override_transformer_config.", "model."},
       {"actor_rollout_ref.actor.megatron.", "model."}},
      table_of(verl_rows),
      &verl_rules,
      &nemo_row};
}

}  // namespace plumbline::model::configurations
