// OpenRLHF's reinforcement learning: options and defaults of openrlhf/cli/train_ppo_ray.py @021d1b09, DeepSpeed's
// configuration of openrlhf/utils/deepspeed/deepspeed_utils.py @0a3fbcef (OpenRLHF/OpenRLHF).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

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

// Returns the first word that names the trainer.
megatron::Command::const_iterator trainer_of(const megatron::Command& command) {
  return std::ranges::find_if(command, [](const megatron::Word& word) {
    return word.text.ends_with("train_ppo_ray") || word.text.ends_with("train_ppo_ray.py");
  });
}

Result<Configuration> read_openrlhf(const Source& source) {
  const auto starts = [](const megatron::Command& command) { return trainer_of(command) != command.end(); };
  const Launch launch = TRY(read_launch(source, starts));
  if (launch.words.empty())
    return wrong_input_at(source.path, 0, "", "does not start OpenRLHF's train_ppo_ray", "other trainers are not read");
  const auto first = trainer_of(launch.words) - launch.words.begin();
  return Configuration{source.path, options_of(launch.words, static_cast<std::size_t>(first) + 1, source.renames)};
}

void read_openrlhf_formats(const RuleInput& in) {
  Draft& draft = in.draft;
  const bool sharded = std::ranges::any_of(draft.configuration().entries,
                                           [](const Entry& entry) { return entry.key.starts_with("fsdp2_"); });
  const std::string_view stated = draft.text("param_dtype") ? "param_dtype" : "bf16";
  const Precision gemm = plain_precision(number_format(draft.text("param_dtype").value_or("bf16")));
  if (draft.text(stated))
    set_precision(draft, gemm, stated);
  else
    draft.assume("precision.gemm", "bf16", "--param_dtype is not given", "fp32");
  if (sharded)
    read_fsdp(draft, gemm);
  else
    read_zero_buffers(in, {.overlap = "overlap_comm", .bucket = "reduce_bucket_size", .gradients = "grad_accum_dtype"},
                      gemm);
  draft.set("stack.name", sharded ? "pytorch-fsdp-eager" : "deepspeed", sharded ? "FSDP2" : "DeepSpeed");
  draft.set("optimizer.gradient_clipping", draft.number("max_norm").value_or(1) > 0, "max_norm");
  draft.set("recompute.policy", draft.flag("gradient_checkpointing").value_or(false) ? "full" : "none",
            "gradient_checkpointing");
  if (draft.degree("context") > 1) draft.set("parallelism.context_method", "ring", "ring_attn_size");
  if (draft.integer("zpg").value_or(1) > 1) draft.not_modeled("zpg", "parameters are gathered from all ranks");
  if (draft.integer("lora_rank").value_or(0) > 0)
    read_adapters(in, {draft.flag("load_in_4bit").value_or(false) ? "qlora" : "lora", "lora_rank", "target_modules"});
}

// Sets where answers are generated, and what rewards them.
void read_openrlhf_engines(const RuleInput& in) {
  Draft& draft = in.draft;
  const bool asynchronous = draft.flag("async_train").value_or(false);
  const bool colocated = draft.flag("colocate_all_models").value_or(false);
  draft.set("inference.engine", "vllm", "of OpenRLHF");
  for (const char* key : {"ref_num_gpus_per_node", "critic_num_gpus_per_node", "reward_num_gpus_per_node"})
    if (!colocated && draft.text(key)) draft.not_modeled(key, "the model has the GPUs of the actor");
  if (!colocated || asynchronous) {
    const std::int64_t engines = draft.integer("vllm_num_engines").value_or(0);
    if (engines < 1 && !draft.given("rollout.gpus"))
      return draft.fail("vllm_num_engines", "no engine of vLLM generates", "--set rollout.gpus=N states their GPUs");
    draft.set("rollout.placement", asynchronous ? "asynchronous" : "split",
              asynchronous ? "async_train" : "vllm_num_engines");
    draft.set("rollout.gpus", bounded_product({engines, draft.value("rollout.tensor").value_or(1)}),
              "vllm_num_engines");
  } else {
    const std::string_view key = draft.text("fsdp2_enable_sleep") ? "fsdp2_enable_sleep" : "deepspeed_enable_sleep";
    draft.set("rollout.offload", draft.flag(key).value_or(false), key);
  }
  const bool program = draft.text("remote_rm_url") || draft.text("agent_func_path");
  if (program || !draft.text("reward_pretrain") || draft.given("rollout.reward_model")) return;
  const auto model = named_model(in, "reward_pretrain");
  if (model) return draft.set("rollout.reward_model", model->shipped, "reward_pretrain");
  draft.not_modeled("reward_pretrain", "a program rewards; set rollout.reward_model");
}

void openrlhf_rules(const RuleInput& in) {
  Draft& draft = in.draft;
  read_named_model(in, "pretrain");
  draft.set("cluster.gpus",
            bounded_product(
                {draft.integer("actor_num_nodes").value_or(1), draft.integer("actor_num_gpus_per_node").value_or(8)}),
            "actor_num_nodes x actor_num_gpus_per_node");
  set_silent_keys(draft, openrlhf_silent);
  read_openrlhf_formats(in);
  read_openrlhf_engines(in);
  const std::string_view estimator = "advantage_estimator", filter = "dynamic_filtering", kept = "init_kl_coef";
  const bool filters = draft.flag(filter).value_or(false);
  read_rollout_algorithm(draft, filters, draft.text(estimator).value_or("gae") == "gae", filters ? filter : estimator,
                         draft.number(kept).value_or(0.01) > 0, kept);
  std::optional<std::int64_t> packed;
  if (draft.flag("use_dynamic_batch").value_or(false))
    packed = bounded_product(
        {draft.integer("train_max_tokens_per_gpu").value_or(16192), draft.degree("context"), draft.degree("tensor")});
  else if (!draft.flag("packing_samples").value_or(false))
    draft.note(Note::Kind::assumed, "", "assumed: samples are packed, as with --packing_samples");
  const std::int64_t longest =
      draft.integer("prompt_max_len").value_or(1024) + draft.value("rollout.max_answer_tokens").value_or(0);
  read_rollout_samples(
      draft, {bounded_product({draft.value("rollout.prompts").value_or(0), draft.value("rollout.answers").value_or(0)}),
              draft.integer("train_batch_size").value_or(128), "train_batch_size", longest,
              "prompt_max_len + generate_max_len", packed, "train_max_tokens_per_gpu",
              draft.integer("micro_train_batch_size").value_or(4), "micro_train_batch_size"});
}

}  // namespace

ConfigurationFormat openrlhf() {
  return {"openrlhf",     "OpenRLHF", &read_openrlhf, {{"max_new_tokens", "generate_max_len"}}, table_of(openrlhf_rows),
          &openrlhf_rules};
}

}  // namespace plumbline::model::configurations
