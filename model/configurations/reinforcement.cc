// verl and NeMo-RL: plans with [rollout], of NeMo-RL of fine-tuning too.
//
// verl is a launch script with its overrides, or the configuration that Hydra keeps of a run. Keys and defaults are
// those of verl-project/verl verl/trainer/config: ppo_trainer.yaml @05a1edd6, actor/actor.yaml @018f23b5,
// actor/dp_actor.yaml @0db13434, data/legacy_data.yaml @35c12f9e, model/hf_model.yaml @0db13434, rollout/rollout.yaml
// @005f2732, algorithm/rollout_correction.yaml @0482624a, optim/fsdp.yaml @4b4fd31f, optim/megatron.yaml @13a5d76f,
// engine/fsdp.yaml @01d4d766 and engine/megatron.yaml @093191fa.
//
// NeMo-RL is its YAML with the files that `defaults` names: keys of examples/configs/grpo_math_1B.yaml, sft.yaml and
// dpo.yaml @00455ac0, which nemo_rl/utils/config.py @017238e5 puts together; defaults of nemo_rl/algorithms/grpo.py
// @002cdc27 (NVIDIA-NeMo/RL). Its section of Megatron has the names of Megatron-Core.
#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <ranges>
#include <span>
#include <tuple>

#include "model/base/text_file.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {

void read_policy(const RuleInput& in, const PolicyKeys& keys, std::span<const SilentKey> silent) {
  Draft& draft = in.draft;
  read_named_model(in, keys.path);
  draft.set("cluster.gpus",
            bounded_product({draft.integer(keys.nodes).value_or(1), draft.integer(keys.gpus).value_or(8)}),
            fmt::format("{} x {}", keys.nodes, keys.gpus));
  draft.set("optimizer.gradient_clipping", draft.number(keys.clipping).value_or(1) > 0, keys.clipping);
  set_silent(draft, silent);
}

void read_checkpointing(Draft& draft, std::string_view key, bool silent) {
  draft.set("recompute.policy", draft.flag(key).value_or(silent) ? "full" : "none", key);
}

namespace {

using enum Meaning;

constexpr KeyRow verl_rows[] = {
#include "model/configurations/detail/keys/verl.def"
};
constexpr KeyRow nemo_rl_rows[] = {
#include "model/configurations/detail/keys/nemo_rl.def"
};

constexpr SilentKey verl_silent[] = {
    {"rollout.prompts", "data.train_batch_size", "1024"},
    {"rollout.answers", "actor_rollout_ref.rollout.n", "1"},
    {"rollout.max_answer_tokens", "data.max_response_length", "512"},
    {"rollout.tensor", "actor_rollout_ref.rollout.tensor_model_parallel_size", "2"},
    {"inference.weights", "actor_rollout_ref.rollout.quantization", "\"bf16\""},
    {"inference.memory_share", "actor_rollout_ref.rollout.gpu_memory_utilization", "0.5"},
    {"inference.chunked_prefill_tokens", "actor_rollout_ref.rollout.max_num_batched_tokens", "8192"}};
constexpr SilentKey nemo_rl_silent[] = {{"rollout.prompts", "grpo.num_prompts_per_step", "32"},
                                        {"rollout.answers", "grpo.num_generations_per_prompt", "16"}};

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

Result<Configuration> read_verl_script(const Source& source) {
  constexpr std::string_view launchers[] = {"verl.trainer.main_ppo", ".main_", "main_ppo.py"};
  const Launch launch = TRY(read_launch(source, launchers));
  Configuration read{source.path, {}};
  for (const megatron::Word& word : std::span(launch.words).subspan(launch.first))
    if (Entry entry = entry_of(word, source.renames); !entry.key.empty()) read.entries.push_back(std::move(entry));
  const bool of_verl = std::ranges::any_of(
      read.entries, [](const Entry& entry) { return entry.written.starts_with("actor_rollout_ref."); });
  if (const megatron::Word& program = launch.words[launch.first - 1]; !of_verl)
    return wrong_input_at(source.path, program.line, "", fmt::format("{} has no option of verl", program.text),
                          "actor_rollout_ref.* are read, on its command line");
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

constexpr std::string_view engine_keys[] = {"actor_rollout_ref.actor.strategy", "model_engine", "config_name"};

bool on_megatron(const Configuration& read) {
  return std::ranges::any_of(read.entries, [](const Entry& entry) {
    return std::ranges::find(engine_keys, entry.key) != std::end(engine_keys) && contains(entry.value, "megatron");
  });
}

// The engines of verl/workers/engine but for FSDP and Megatron have sections of their own, which are not read.
void refuse_other_engines(Draft& draft) {
  for (const std::string_view key : engine_keys)
    for (const std::string_view other : {"veomni", "torchtitan", "automodel", "mindspeed"})
      if (contains(draft.text(key).value_or(""), other))
        draft.fail(key, fmt::format("trains by {}, whose keys are not read", other),
                   "fsdp, fsdp2 and megatron are read");
}

// What the reference model and the critic may have of their own (critic/critic.yaml @07d02dfb). The value of the policy
// where no key states it, and that of the critic; empty: the policy's.
struct OwnKey {
  std::string_view key, of_policy, policy_silent, critic_silent, property;
};
constexpr OwnKey of_both[] = {{"model.path", kPolicyPath, "", "", "size"}};
constexpr OwnKey of_fsdp[] = {
    {"ulysses_sequence_parallel_size", "actor.fsdp.ulysses_sequence_parallel_size", "1", "1", "degrees"},
    {"optim.optimizer", "actor_rollout_ref.actor.optim.optimizer", "adamw", "adamw", "optimizer"}};
constexpr OwnKey of_megatron[] = {
    {"megatron.tensor_model_parallel_size", "model.tensor_model_parallel_size", "1", "1", "degrees"},
    {"megatron.pipeline_model_parallel_size", "model.pipeline_model_parallel_size", "1", "1", "degrees"},
    {"megatron.context_parallel_size", "model.context_parallel_size", "1", "1", "degrees"},
    {"megatron.expert_model_parallel_size", "model.expert_model_parallel_size", "1", "1", "degrees"},
    {"model.lora.rank", "actor_rollout_ref.model.lora.rank", "0", "0", "adapters"},
    {"optim.optimizer", "actor_rollout_ref.actor.optim.optimizer", "adam", "adam", "optimizer"}};
constexpr OwnKey of_critic[] = {
    {"ppo_mini_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size", "256", "", "updates"},
    {"ppo_epochs", "actor_rollout_ref.actor.ppo_epochs", "1", "", "epochs"},
    {"use_dynamic_bsz", "actor_rollout_ref.actor.use_dynamic_bsz", "false", "", "micro-batch"},
    {"model.lora_rank", "actor_rollout_ref.model.lora_rank", "0", "0", "adapters"},
    {"model.enable_gradient_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing", "true", "true",
     "recomputation"}};
constexpr OwnKey of_critic_packed[] = {{"ppo_max_token_len_per_gpu",
                                        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "16384", "32768",
                                        "micro-batch"}};
constexpr OwnKey of_critic_samples[] = {
    {"ppo_micro_batch_size_per_gpu", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "", "", "micro-batch"},
    {"ppo_micro_batch_size", "actor_rollout_ref.actor.ppo_micro_batch_size", "", "", "micro-batch"}};

// Notes what a model has that takes turns with the policy and is taken to be as it.
void note_other_model(Draft& draft, std::string_view model, std::span<const OwnKey> keys) {
  for (const auto& [key, of_policy, policy_silent, critic_silent, property] : keys) {
    const std::string own = fmt::format("{}.{}", model, key);
    const std::string policy = lower_case(draft.text(of_policy).value_or(std::string(policy_silent)));
    const bool follows = model != "critic" || critic_silent.empty();
    const auto stated = draft.text(own);
    if (lower_case(stated.value_or(follows ? policy : std::string(critic_silent))) == policy) continue;
    if (stated)
      draft.not_modeled(own, fmt::format("it has the {} of the policy", property));
    else
      draft.note(Note::Kind::not_modeled, own,
                 fmt::format("{} is not given, so {}: not modelled; it has the {} of the policy", own, critic_silent,
                             property));
  }
}

// Notes a model that is not where the policy is while answers are generated. The first of its keys that is given holds;
// without any it is on the host as `silent` has it.
void note_place(Draft& draft, std::initializer_list<std::string_view> keys, bool silent) {
  const bool leaves = draft.word("rollout.offload") == "true";
  const std::string_view priced = leaves ? "it goes to the host with the policy" : "it stays on the GPUs";
  for (const std::string_view key : keys)
    if (const auto own = draft.flag(key)) return *own == leaves ? void() : draft.not_modeled(key, priced);
  if (silent != leaves)
    draft.note(Note::Kind::not_modeled, *keys.begin(),
               fmt::format("{} is not given, so {}: not modelled; {}", *keys.begin(), silent, priced));
}

// The reference of Megatron has the policy's value where it states none (ref/megatron_ref.yaml @093191fa), the others
// have that of engine/fsdp.yaml and engine/megatron.yaml.
void note_places(Draft& draft) {
  const bool megatron = on_megatron(draft.configuration());
  if (draft.word("rollout.reference") == "true")
    note_place(
        draft,
        {megatron ? "actor_rollout_ref.ref.megatron.param_offload" : "actor_rollout_ref.ref.fsdp_config.param_offload"},
        megatron && draft.word("rollout.offload") == "true");
  if (draft.word("rollout.critic") == "true")
    note_place(draft,
               {megatron ? "critic.megatron.param_offload" : "critic.fsdp.param_offload",
                "critic.model.fsdp_config.param_offload"},
               false);
}

void note_other_models(Draft& draft) {
  const std::span<const OwnKey> of_engine =
      on_megatron(draft.configuration()) ? std::span<const OwnKey>(of_megatron) : of_fsdp;
  for (const auto& [model, what] :
       {std::pair{"actor_rollout_ref.ref", "rollout.reference"}, {"critic", "rollout.critic"}})
    if (draft.word(what) == "true")
      for (const auto& keys : {std::span<const OwnKey>(of_both), of_engine}) note_other_model(draft, model, keys);
  note_places(draft);
  if (draft.word("rollout.critic") != "true") return;
  const bool packs = draft.flag("critic.use_dynamic_bsz")
                         .value_or(draft.flag("actor_rollout_ref.actor.use_dynamic_bsz").value_or(false));
  note_other_model(draft, "critic", of_critic);
  note_other_model(draft, "critic", packs ? std::span<const OwnKey>(of_critic_packed) : of_critic_samples);
}

Result<Configuration> read_verl(const Source& source) {
  const bool yaml = source.text.starts_with("actor_rollout_ref:") ||
                    source.text.find("\nactor_rollout_ref:") != std::string_view::npos;
  auto read = TRY(yaml ? read_yaml(source) : read_verl_script(source));
  resolve_references(read.entries);
  for (Entry& entry : read.entries) {
    if (!entry.unread && entry.value.starts_with("${") && entry.value.ends_with('}'))
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
  read_ulysses(in, "actor.fsdp.ulysses_sequence_parallel_size");
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
  read_deferred_reduction(draft, "actor.fsdp.use_no_sync_for_gradient_accumulation");
  read_checkpointing(draft, "actor_rollout_ref.model.enable_gradient_checkpointing", true);
  draft.set("stack.name", "pytorch-fsdp-eager", "actor_rollout_ref.actor.strategy");
}

void read_verl_training(const RuleInput& in) {
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
  if (const std::string_view key = "actor_rollout_ref.model.use_fused_kernels"; draft.flag(key).value_or(false))
    draft.set("loss.kernel", "linear", key);
  const bool bridge = draft.integer("actor_rollout_ref.model.lora.rank").value_or(0) > 0;  // of Megatron
  const std::string adapters = bridge ? "actor_rollout_ref.model.lora." : "actor_rollout_ref.model.";
  const std::string rank = adapters + (bridge ? "rank" : "lora_rank"), targets = adapters + "target_modules";
  if (draft.integer(rank).value_or(0) > 0) read_adapters(in, {"lora", rank, targets});
  if (const std::string_view key = "actor_rollout_ref.model.use_remove_padding"; !draft.flag(key).value_or(true))
    draft.not_modeled(key, "samples are packed");
}

void read_verl_step(Draft& draft) {
  const std::string actor = "actor_rollout_ref.actor.", all = actor + "ppo_micro_batch_size",
                    estimator = "algorithm.adv_estimator";
  const bool filters = read_algorithm(draft, "algorithm.filter_groups.enable",
                                      draft.text(estimator).value_or("gae") == "gae", estimator);
  if (const auto enabled = draft.flag("critic.enable")) draft.set("rollout.critic", *enabled, "critic.enable");
  if (draft.text(estimator) == "remax") draft.not_modeled(estimator, "no answer of a baseline is generated");
  const bool in_loss = draft.flag(actor + "use_kl_loss").value_or(false);
  draft.set("rollout.reference", in_loss || draft.flag("algorithm.use_kl_in_reward").value_or(false),
            in_loss ? actor + "use_kl_loss" : "algorithm.use_kl_in_reward");
  read_updates(draft, draft.value("rollout.prompts").value_or(0), actor + "ppo_mini_batch_size", 256);
  std::string key = all + "_per_gpu";
  std::optional<std::int64_t> packed, micro = draft.integer(key);
  if (const auto count = draft.integer(all), ranks = draft.data_parallel(); !micro && count && ranks) {
    micro = std::max<std::int64_t>(1, *count / *ranks);  // as releases before 2025 count them
    key = all;
  }
  if (draft.flag(actor + "use_dynamic_bsz").value_or(false)) {  // as many tokens as it may have
    key = actor + "ppo_max_token_len_per_gpu";
    packed = bounded_product({draft.integer(key).value_or(16384), draft.degree("context")});
  }
  const std::int64_t prompt = draft.integer("data.max_prompt_length").value_or(512);
  read_micro_batch(draft, prompt + draft.value("rollout.max_answer_tokens").value_or(0), packed, micro, key);
  const auto generated = draft.number("data.gen_batch_size"), trained = draft.number("data.train_batch_size");
  if (filters && generated && trained && *trained > 0 && *generated >= *trained)
    draft.set("rollout.oversampling", *generated / *trained, "data.gen_batch_size");
  if (draft.flag("algorithm.rollout_correction.bypass_mode").value_or(false))
    draft.set("rollout.old_log_probs", false, "algorithm.rollout_correction.bypass_mode");
  if (const auto steps = draft.integer("trainer.total_training_steps"); steps && *steps > 0)
    draft.set("rollout.steps", *steps, "trainer.total_training_steps");
}

void read_verl_engines(Draft& draft) {
  const std::string section = "actor_rollout_ref.rollout.", chunks = section + "enable_chunked_prefill";
  read_engine(draft, section + "name");
  if (!draft.flag(chunks).value_or(true)) draft.set("inference.chunked_prefill_tokens", std::int64_t{0}, chunks);
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
  // grad_clip is of the workers before
  read_policy(in, {kPolicyPath, "trainer.nnodes", "trainer.n_gpus_per_node", "actor_rollout_ref.actor.optim.clip_grad"},
              verl_silent);
  refuse_other_engines(draft);
  read_verl_training(in);
  read_verl_step(draft);
  read_verl_engines(draft);
  note_other_models(draft);
  if (const std::string_view key = "actor_rollout_ref.rollout.free_cache_engine"; !draft.flag(key).value_or(true))
    draft.not_modeled(key, "engines leave the memory to what trains");
}

constexpr std::string_view kBases = "defaults";

// Adds what a file states, and behind it what those state that it names as its defaults, where it does not: of these
// the last one holds. Lines of others are not kept.
Result<void> add_with_bases(const Source& source, int depth, std::set<std::string>& written, Configuration& all) {
  constexpr int deepest = 8;
  const Configuration read = TRY(read_yaml(source));
  for (const Entry& entry : read.entries)
    if (written.insert(entry.written).second) {
      all.entries.push_back(entry);
      if (depth > 0) all.entries.back().line = 0;
    }
  const Entry* bases = read.find(kBases);
  std::vector<std::string> names = bases == nullptr ? std::vector<std::string>() : bases->items;
  if (bases != nullptr && !bases->value.empty()) names.push_back(bases->value);
  for (const std::string& name : std::views::reverse(names)) {
    const std::string path = (std::filesystem::path(source.path).parent_path() / name).lexically_normal().string();
    if (depth == deepest || !is_file(path))
      return wrong_input_at(source.path, bases->line, std::string(kBases),
                            fmt::format("'{}' is no file, or {} files deep", path, deepest),
                            "put it there, as it lies in NeMo-RL");
    const std::string text = TRY(read_text_file(path));
    TRY(add_with_bases({text, path, source.renames, "", {}}, depth + 1, written, all));
  }
  return {};
}

// Leaves out what is not enabled: of the two that train, of the engines, and FP8.
Result<Configuration> read_nemo_rl(const Source& source) {
  Configuration read{source.path, {}};
  std::set<std::string> written;
  TRY(add_with_bases(source, 0, written, read));
  resolve_references(read.entries);
  const auto value_of = [&read](std::string_view key) {
    const auto found = std::ranges::find(read.entries, key, &Entry::written);
    return found == read.entries.end() ? "" : lower_case(found->value);
  };
  const bool megatron = value_of("policy.megatron_cfg.enabled") == "true";
  const bool sglang = value_of("policy.generation.backend") == "sglang";
  std::vector<std::string_view> off = {megatron ? "policy.dtensor_cfg." : "policy.megatron_cfg.",
                                       sglang ? "policy.generation.vllm_cfg." : "policy.generation.sglang_cfg."};
  if (value_of("policy.megatron_cfg.fp8_cfg.enabled") != "true") off.push_back("policy.megatron_cfg.fp8_cfg.");
  for (Entry& entry : read.entries) {
    entry.unread = entry.value.starts_with("${");
    const bool unused = std::ranges::any_of(off, [&](std::string_view one) { return entry.written.starts_with(one); });
    if (unused && !entry.written.ends_with("_cfg.enabled")) entry.key = "unused";
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
  if (draft.degree("context") > 1) draft.set("parallelism.context_method", "ring", "PyTorch's context parallelism");
  if (const std::string_view key = "policy.dtensor_cfg.cpu_offload"; draft.flag(key).value_or(false)) {
    draft.set("offload.optimizer", true, key);
    draft.not_modeled(key, "parameters and gradients stay on the GPU");
  }
  if (const std::string_view key = "policy.optimizer.name"; !contains(draft.text(key).value_or("Adam"), "Adam"))
    draft.not_modeled(key, "the optimizer is Adam with states of FP32");
  draft.set("stack.name", "pytorch-fsdp-eager", "policy.dtensor_cfg.enabled");
}

// Sets where answers are generated, whose GPUs train no model.
void read_nemo_rl_engines(Draft& draft) {
  const std::string colocated = "policy.generation.colocated.", asynchronous = "grpo.async_grpo.";
  const std::string_view weights = "policy.generation.vllm_cfg.precision",
                         cache = "policy.generation.vllm_cfg.kv_cache_dtype";
  read_engine(draft, "policy.generation.backend");
  draft.set("inference.weights", draft.text(weights) == "fp8" ? "fp8" : "bf16", weights);
  if (draft.text(cache).value_or("").starts_with("fp8")) draft.set("inference.kv_cache", "fp8", cache);
  if (draft.flag(colocated + "enabled").value_or(true)) return;
  // The file's GPUs are those of both halves, the plan's, which --gpus may state, those that train.
  const std::int64_t nodes = draft.integer("cluster.num_nodes").value_or(1),
                     each = draft.integer("cluster.gpus_per_node").value_or(8);
  // One node states GPUs, several state nodes (setup() of nemo_rl/algorithms/grpo.py).
  const std::string key = colocated + (nodes == 1 ? "resources.gpus_per_node" : "resources.num_nodes");
  const std::int64_t stated = draft.integer(key).value_or(0);
  const std::int64_t generating = nodes > 1 ? bounded_product({stated, each}) : stated;
  const bool ahead = draft.flag(asynchronous + "enabled").value_or(false);
  draft.set("rollout.placement", ahead ? "asynchronous" : "split", colocated + "enabled");
  draft.set("rollout.gpus", generating, key);
  draft.set("cluster.gpus", bounded_product({nodes, each}) - generating, "cluster.num_nodes x cluster.gpus_per_node");
  if (const std::string age = asynchronous + "max_trajectory_age_steps"; ahead)
    draft.set("rollout.staleness", draft.integer(age).value_or(1), age);
}

void read_grpo(Draft& draft) {
  const std::int64_t longest = draft.integer("policy.max_total_sequence_length").value_or(0);
  const std::string_view filter = "grpo.use_dynamic_sampling", ratio = "loss_fn.force_on_policy_ratio",
                         skips = "grpo.skip_reference_policy_logprobs_calculation",
                         newest = "policy.generation.max_new_tokens", turns = "grpo.max_rollout_turns";
  const std::int64_t most = std::max<std::int64_t>(1, longest - draft.value("rollout.prompt_tokens").value_or(0));
  draft.set("rollout.max_answer_tokens", std::min(draft.integer(newest).value_or(most), most), newest);
  if (read_algorithm(draft, filter, false, filter))
    draft.set("rollout.oversampling", draft.number("grpo.batch_multiplier").value_or(1), "grpo.batch_multiplier");
  draft.set("rollout.reference", !draft.flag(skips).value_or(false), skips);
  if (draft.flag(ratio).value_or(false) && !draft.text("grpo.seq_logprob_error_threshold"))
    draft.set("rollout.old_log_probs", false, ratio);
  if (const auto steps = draft.integer("grpo.max_num_steps"); steps && *steps > 0 && *steps < 1'000'000)
    draft.set("rollout.steps", *steps, "grpo.max_num_steps");
  if (draft.integer(turns).value_or(1) > 1) draft.not_modeled(turns, "an answer is generated in one turn");
  read_updates(draft, answers_of(draft), "policy.train_global_batch_size", 0);
  std::string key = "policy.train_micro_batch_size";
  std::optional<std::int64_t> packed;
  const auto micro = draft.integer(key);
  for (const std::string part : {"policy.sequence_packing.", "policy.dynamic_batching."})
    if (draft.flag(part + "enabled").value_or(false) && !packed) {
      key = part + "train_mb_tokens";
      packed = draft.integer(key).value_or(bounded_product({longest, micro.value_or(1)}));
    }
  read_micro_batch(draft, longest, packed, micro, key);
}

// Sets the batch of SFT and DPO, which counts pairs.
void read_nemo_rl_batch(Draft& draft, bool pairs) {
  for (const auto& [plan_key, key, answers] :
       {std::tuple{"batch.global_batch_size", "policy.train_global_batch_size", pairs ? 2 : 1},
        {"batch.micro_batch_size", "policy.train_micro_batch_size", pairs ? 2 : 1},
        {"batch.sequence_length", "policy.max_total_sequence_length", 1}})
    if (const auto count = draft.integer(key)) draft.set(plan_key, bounded_product({answers, *count}), key);
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
  read_policy(in, {"policy.model_name", "cluster.num_nodes", "cluster.gpus_per_node", "policy.max_grad_norm"},
              grpo ? std::span<const SilentKey>(nemo_rl_silent) : std::span<const SilentKey>());
  if (grpo) read_nemo_rl_engines(draft);
  const bool megatron = draft.flag("policy.megatron_cfg.enabled").value_or(false);
  const std::string engine = megatron ? "model." : "policy.dtensor_cfg.";
  const std::string sequence = engine + "sequence_parallel", kept = engine + "activation_checkpointing";
  if (draft.degree("tensor") > 1) draft.set("parallelism.sequence", draft.flag(sequence).value_or(false), sequence);
  if (megatron)
    read_nemo_training(in);
  else
    read_dtensor(in);
  if (!megatron || draft.flag(kept).value_or(false)) read_checkpointing(draft, kept);
  if (const std::string part = "policy.lora_cfg."; draft.flag(part + "enabled").value_or(false)) {
    const bool all = draft.flag(part + "match_all_linear").value_or(false);
    read_adapters(in, {"lora", part + "dim", part + (all ? "match_all_linear" : "target_modules")});
  }
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
