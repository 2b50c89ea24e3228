// OpenRLHF: plans with [rollout], of the options of openrlhf/cli/train_ppo_ray.py @021d1b09, and those of 2026:
// @d90c4fde, and @2069b3f6 with sections and FSDP in place of DeepSpeed, whose configuration is that of
// openrlhf/utils/deepspeed/deepspeed_utils.py
// @0a3fbcef (OpenRLHF/OpenRLHF).
#include <algorithm>
#include <utility>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

using enum Meaning;

constexpr KeyRow openrlhf_rows[] = {
#include "model/configurations/detail/keys/openrlhf.def"
};

constexpr SilentKey openrlhf_silent[] = {{"rollout.tensor", "vllm_tensor_parallel_size", "1"},
                                         {"inference.memory_share", "vllm_gpu_memory_utilization", "0.95"},
                                         {"rollout.prompts", "rollout_batch_size", "1024"},
                                         {"rollout.answers", "n_samples_per_prompt", "1"},
                                         {"rollout.max_answer_tokens", "generate_max_len", "1024"},
                                         {"parallelism.zero_stage", "zero_stage", "2"}};

Result<Configuration> read_openrlhf(const Source& source) {
  constexpr std::string_view launchers[] = {"train_ppo_ray", "train_ppo_ray.py"};
  const Launch launch = TRY(read_launch(source, launchers));
  Configuration read{source.path, options_of(launch.words, launch.first, source.renames)};
  // Releases of 2026 have one length of prompt and answer, and other defaults.
  const bool older = std::ranges::none_of(read.entries, [](const Entry& e) { return contains(e.written, "."); });
  if (older && (read.find("data.max_len") == nullptr || read.find("prompt_max_len") != nullptr)) return read;
  for (const auto& [key, value] :
       {std::pair("param_dtype", "bf16"), {"micro_train_batch_size", "1"}, {"data.max_len", "2048"}})
    if (read.find(key) == nullptr) read.entries.push_back({key, key, value, {}, 0});
  return read;
}

// Whether FSDP trains: the releases that have its options have none of DeepSpeed's.
bool on_fsdp(const Draft& draft) {
  return std::ranges::any_of(draft.configuration().entries,
                             [](const Entry& entry) { return entry.written.starts_with("--fsdp."); });
}

// Sets FSDP2 as NeMo AutoModel has it: shards of FP32 parameters, of BF16 where experts are not spread (Actor of
// openrlhf/models/actor.py @2069b3f6), whose gradients are reduced in FP32 after the last micro-batch. What that
// release does not run yet is refused (both of FsdpStrategy, openrlhf/utils/fsdp/strategy.py @11fac0cd).
void read_openrlhf_fsdp(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view sequence = "fsdp.sequence_parallel", offload = "fsdp.cpu_offload", stages = "fsdp.pp_size";
  const bool mixed = in.has_experts() && draft.degree("expert") == 1;
  if (draft.integer(stages).value_or(1) != 1) draft.fail(stages, "OpenRLHF trains without pipeline stages", "1");
  if (draft.text("actor.optim") == "muon")
    draft.fail("actor.optim", "OpenRLHF has Muon on DeepSpeed alone", "use adam");
  if (draft.degree("context") > 1 && draft.flag("packing_samples").value_or(false))
    draft.fail("packing_samples", "OpenRLHF packs no samples that context-parallel ranks divide", "leave it out");
  if (draft.degree("tensor") > 1) draft.set("parallelism.sequence", draft.flag(sequence).value_or(true), sequence);
  const Precision gemm = plain_precision(number_format(draft.text("param_dtype").value_or("bf16")));
  set_precision(draft, gemm, "param_dtype");
  for (const char* key : {"precision.master_weights", "precision.optimizer_moments", "precision.gradients"})
    draft.set(key, mixed ? to_string(gemm) : "fp32", mixed ? "experts that are not spread" : "FP32 parameters");
  draft.set("precision.gradient_reduce", "fp32", "FSDP");
  draft.set("parallelism.zero_stage", std::int64_t{3}, "FSDP");
  draft.set("parallelism.reduce_after", "run", "FSDP");
  if (draft.flag(offload).value_or(false)) {
    draft.set("offload.optimizer", true, offload);
    draft.not_modeled(offload, "parameters and gradients stay on the GPU");
  }
  draft.set("stack.name", "pytorch-fsdp-eager", "FSDP");
}

void read_openrlhf_deepspeed(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view stated = draft.text("param_dtype") ? "param_dtype" : "bf16";
  const Precision gemm = plain_precision(number_format(draft.text("param_dtype").value_or("bf16")));
  if (draft.text(stated))
    set_precision(draft, gemm, stated);
  else
    draft.assume("precision.gemm", "bf16", "--param_dtype is not given", "fp32");
  read_zero_buffers(in, {.overlap = "overlap_comm", .bucket = "reduce_bucket_size", .gradients = "grad_accum_dtype"},
                    gemm);
  draft.set("stack.name", "deepspeed", "DeepSpeed");
  if (draft.integer("zpg").value_or(1) > 1) draft.not_modeled("zpg", "parameters are gathered from all ranks");
}

void read_openrlhf_training(const RuleInput& in) {
  Draft& draft = in.draft;
  on_fsdp(draft) ? read_openrlhf_fsdp(in) : read_openrlhf_deepspeed(in);
  read_checkpointing(draft, "gradient_checkpointing");
  constexpr std::string_view old_key = "gradient_checkpointing_use_reentrant";
  constexpr std::string_view key = "actor.gradient_checkpointing_reentrant";
  const bool reentrant = draft.flag(key).value_or(draft.flag(old_key).value_or(false));
  if (draft.word("recompute.policy") == "full") draft.set("recompute.early_stop", !reentrant, key);
  if (draft.degree("context") > 1) draft.set("parallelism.context_method", "ring", "ring_attn_size");
  if (draft.integer("lora_rank").value_or(0) > 0)
    read_adapters(in, {draft.flag("load_in_4bit").value_or(false) ? "qlora" : "lora", "lora_rank", "target_modules"});
}

// Notes the GPUs that a model has of its own, 8 by default, where nothing puts it to those of another one.
void note_own_gpus(Draft& draft, std::string_view model, std::string_view name) {
  const std::string nodes = fmt::format("{}_num_nodes", model), each = fmt::format("{}_num_gpus_per_node", model);
  const std::int64_t gpus = bounded_product({draft.integer(nodes).value_or(1), draft.integer(each).value_or(8)});
  const std::string what = fmt::format(
      "the {} model has {} GPUs of its own, which are not in the plan; here it takes turns with the actor", name, gpus);
  if (draft.configuration().find(each) != nullptr)
    draft.not_modeled(each, what);
  else
    draft.note(Note::Kind::not_modeled, "", fmt::format("--colocate_all_models is not given: not modelled: {}", what));
}

// Whether a model rewards the answers: neither a program nor a server does.
bool rewards_by_model(const Draft& draft) {
  return draft.text("reward_pretrain") && !draft.text("remote_rm_url") && !draft.text("agent_func_path");
}

// Models that have no GPUs of their own lie on those of the actor, or of the critic (PPORayActorGroup of
// openrlhf/cli/train_ppo_ray.py @021d1b09).
void note_models(Draft& draft) {
  const auto together = [&draft](const char* key) { return draft.flag(key).value_or(false); };
  if (together("colocate_all_models")) return;
  if (draft.word("rollout.reference") == "true" && !together("colocate_actor_ref"))
    note_own_gpus(draft, "ref", "reference");
  if (draft.word("rollout.critic") == "true") note_own_gpus(draft, "critic", "critic");
  if (rewards_by_model(draft) && !together("colocate_critic_reward")) note_own_gpus(draft, "reward", "reward");
}

// Sets where answers are generated, and what rewards them.
void read_openrlhf_engines(const RuleInput& in) {
  Draft& draft = in.draft;
  const bool asynchronous = draft.flag("async_train").value_or(false);
  const bool colocated = draft.flag("colocate_all_models").value_or(false);
  draft.set("inference.engine", "vllm", "of OpenRLHF");
  if (!colocated || asynchronous) {
    const std::int64_t engines = draft.integer("vllm_num_engines").value_or(0);
    if (engines < 1 && !draft.given("rollout.gpus"))
      return draft.fail("vllm_num_engines", "no engine of vLLM generates", "--set rollout.gpus=N states their GPUs");
    draft.set("rollout.placement", asynchronous ? "asynchronous" : "split",
              asynchronous ? "async_train" : "vllm_num_engines");
    draft.set("rollout.gpus", bounded_product({engines, draft.value("rollout.tensor").value_or(1)}),
              "vllm_num_engines");
    if (const auto ahead = draft.integer("async_queue_size"); ahead && asynchronous)
      draft.set("rollout.staleness", std::max<std::int64_t>(1, *ahead), "async_queue_size");
  } else {
    draft.set("rollout.offload", draft.flag("deepspeed_enable_sleep").value_or(false), "deepspeed_enable_sleep");
  }
  if (!rewards_by_model(draft) || draft.given("rollout.reward_model")) return;
  const auto model = named_model(in, "reward_pretrain");
  if (model) return draft.set("rollout.reward_model", model->shipped, "reward_pretrain");
  draft.not_modeled("reward_pretrain", "a program rewards; set rollout.reward_model");
}

void openrlhf_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  // The engine generates what a prompt leaves of the whole length, and cuts prompts to leave what is stated.
  const auto whole = draft.text("prompt_max_len") ? std::nullopt : draft.integer("data.max_len");
  if (whole && !draft.given("rollout.max_answer_tokens"))
    draft.set("rollout.max_answer_tokens",
              std::max<std::int64_t>(1, *whole - draft.value("rollout.prompt_tokens").value_or(0)),
              "data.max_len without a prompt");
  if (on_fsdp(draft)) draft.set("parallelism.zero_stage", std::int64_t{3}, "FSDP");
  read_policy(in, {"pretrain", "actor_num_nodes", "actor_num_gpus_per_node", "max_norm"}, openrlhf_silent);
  read_openrlhf_training(in);
  read_openrlhf_engines(in);
  if (draft.text("actor.optim") == "muon") draft.set("optimizer.kind", "muon", "actor.optim");
  const std::string_view estimator = "advantage_estimator", penalty = "init_kl_coef";
  read_algorithm(draft, "dynamic_filtering", draft.text(estimator).value_or("gae") == "gae", estimator);
  draft.set("rollout.reference", draft.number(penalty).value_or(0.01) > 0, penalty);
  note_models(draft);
  read_updates(draft, answers_of(draft), "train_batch_size", 128);
  const bool packs = draft.flag("use_dynamic_batch").value_or(false);
  const std::string_view key = packs ? "train_max_tokens_per_gpu" : "micro_train_batch_size";
  const std::int64_t stated = draft.integer(key).value_or(packs ? 16192 : 4);
  if (!packs && !draft.flag("packing_samples").value_or(on_fsdp(draft) && draft.degree("context") == 1))
    draft.note(Note::Kind::assumed, "", "assumed: samples are packed, as with --packing_samples");
  std::optional<std::int64_t> packed;
  if (packs) packed = bounded_product({stated, draft.degree("context"), draft.degree("tensor")});
  const std::int64_t longest =
      draft.integer("prompt_max_len").value_or(1024) + draft.value("rollout.max_answer_tokens").value_or(0);
  read_micro_batch(draft, whole.value_or(longest), packed, stated, key);
}

}  // namespace

ConfigurationFormat openrlhf() {
  return {"openrlhf",
          "OpenRLHF",
          &read_openrlhf,
          {{"max_new_tokens", "generate_max_len"},
           {"max_len", "data.max_len"},
           {"actor.model_name_or_path", "pretrain"},
           {"actor.gradient_checkpointing_enable", "gradient_checkpointing"},
           {"actor.max_norm", "max_norm"},
           {"actor.num_", "actor_num_"},
           {"ref.num_", "ref_num_"},
           {"ref.offload", "ref_reward_offload"},
           {"critic.num_", "critic_num_"},
           {"critic.model_name_or_path", "critic_pretrain"},
           {"critic.freezing_steps", "freezing_actor_steps"},
           {"reward.num_", "reward_num_"},
           {"reward.offload", "ref_reward_offload"},
           {"reward.model_name_or_path", "reward_pretrain"},
           {"reward.remote_url", "remote_rm_url"},
           {"train.agent_func_path", "agent_func_path"},
           {"train.async_enable", "async_train"},
           {"train.async_queue_size", "async_queue_size"},
           {"train.batch_size", "train_batch_size"},
           {"train.colocate_all", "colocate_all_models"},
           {"train.colocate_actor_ref", "colocate_actor_ref"},
           {"train.colocate_critic_reward", "colocate_critic_reward"},
           {"train.dynamic_batch_enable", "use_dynamic_batch"},
           {"train.enable_ema", "enable_ema"},
           {"train.max_epochs", "max_epochs"},
           {"train.max_tokens_per_gpu", "train_max_tokens_per_gpu"},
           {"train.micro_batch_size", "micro_train_batch_size"},
           {"train.partial_rollout_enable", "partial_rollout"},
           {"rollout.batch_size", "rollout_batch_size"},
           {"rollout.max_new_tokens", "generate_max_len"},
           {"rollout.n_samples_per_prompt", "n_samples_per_prompt"},
           {"algo.advantage.estimator", "advantage_estimator"},
           {"algo.dynamic_filtering_enable", "dynamic_filtering"},
           {"algo.kl.init_coef", "init_kl_coef"},
           {"vllm.enforce_eager", "enforce_eager"},
           {"vllm.enable_prefix_caching", "enable_prefix_caching"},
           {"vllm.", "vllm_"},
           {"ds.tensor_parallel_size", "ds_tensor_parallel_size"},
           {"ds.enable_sleep", "deepspeed_enable_sleep"},
           {"ds.lora.target_modules", "target_modules"},
           {"ds.lora.", "lora_"},
           {"ds.ring_attn_head_stride", "ring_head_stride"},
           {"ds.use_universal_ckpt", "use_ds_universal_ckpt"},
           {"ds.", ""},
           {"actor.entropy_coef", "entropy_loss_coef"},
           {"fsdp.tp_size", "ds_tensor_parallel_size"},
           {"fsdp.cp_size", "ring_attn_size"},
           {"fsdp.lora.target_modules", "target_modules"},
           {"fsdp.lora.", "lora_"},
           {"fsdp.param_dtype", "param_dtype"},
           {"fsdp.attn_implementation", "attn_implementation"},
           {"fsdp.use_liger_kernel", "use_liger_kernel"},
           {"fsdp.packing_samples", "packing_samples"},
           {"fsdp.load_in_4bit", "load_in_4bit"},
           {"fsdp.value_head_prefix", "value_head_prefix"}},
          table_of(openrlhf_rows),
          &openrlhf_rules};
}

}  // namespace plumbline::model::configurations
