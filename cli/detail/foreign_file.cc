#include "cli/detail/foreign_file.h"

#include <fmt/format.h>

#include "calibrate/import/printed_files.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

// What two parts of a text show it to be, and the command that reads the file {0}.
struct Marker {
  std::string_view begin;  // of the text
  std::string_view one, other;
  std::string_view what, command;
};
constexpr std::string_view kUnread = "no command reads it";  // what their hints begin with
constexpr std::string_view kPlanByHand =
    "no command reads it: its degrees and batch are keys of a plan; plumbline show key parallelism lists them";
constexpr std::string_view kRolloutOfMegatron =
    "plumbline import megatron {0} --set rollout.prompt_tokens=N --set rollout.answer_tokens=N --set "
    "rollout.answer_tokens_sd=N -o plan.toml";
constexpr Marker markers[] = {
    {"\x1f\x8b", "", "", "a compressed file",
     "gzip -dc {0} unpacks it; a trace is read as it is: plumbline compare PLAN {0}, or import kineto {0} -o "
     "chunk.csv"},
    {"{\n  \"plumbline\"", "\"schema\"", "", "a result", "plumbline report {0} -o page.html shows it"},
    {"", "[parallelism]", "[batch]", "a plan", "plumbline simulate {0}"},
    {"", "\"traceEvents\"", "", "a trace", "plumbline compare PLAN {0}, or import kineto {0} -o chunk.csv"},
    {"<", "<system", "<cpu", "a topology dump of NCCL", "plumbline import nccl-topology {0} -o cluster.toml"},
    {"", "Mean TPOT (ms)", "", "the result of a serving benchmark", "plumbline serve PLAN --measured {0}"},
    {"{", "\"mean_tpot_ms\"", "", "the result of a serving benchmark", "plumbline serve PLAN --measured {0}"},
    {"", "algbw", "busbw", "output of nccl-tests", "plumbline import nccl-tests {0} -o measurements.csv"},
    {"{", "\"zero_optimization\"", "", "a configuration of DeepSpeed",
     "plumbline import deepspeed {0} --gpus N --model NAME -o plan.toml"},
    {"{", "\"model_type\"", "", "a model", "plumbline plan {0} --gpus N --cluster NAME, or import hf {0}"},
    {"", "distributed_type:", "compute_environment:", "a configuration of accelerate",
     "plumbline import accelerate {0} -o plan.toml"},
    {"", "apiVersion:", "containers:", "a manifest of Kubernetes",
     "write the command of its container as a script, which plumbline import megatron reads, with --gpus for its "
     "replicas times their GPUs"},
    {"", "pre_trainer:", "framework:", "an experiment of Primus", "plumbline import primus {0} -o plan.toml"},
    {"", "post_trainer:", "framework:", "an experiment of Primus", "plumbline import primus {0} -o plan.toml"},
    {"", "step_scheduler:", "local_batch_size:", "a recipe of NeMo AutoModel",
     "plumbline import automodel {0} --gpus N -o plan.toml"},
    {"", "verl_omni.", "actor_rollout_ref.", "a launch script of veRL-Omni, which trains on images and video",
     "no command reads it: diffusion models are no models of plumbline"},
    {"", "skyrl", "trainer.policy.model.path=", "a launch script of SkyRL", kPlanByHand},
    {"", "per_device_batch_size=", "base_output_directory=", "a launch script of MaxText", kPlanByHand},
    {"", "per_device_batch_size:", "remat_policy:", "a configuration of MaxText", kPlanByHand},
    {"", "verl.trainer.", "#!", "a launch script of verl", "plumbline import verl {0} -o plan.toml"},
    {"", "actor_rollout_ref.model.path=", "", "a launch script of verl", "plumbline import verl {0} -o plan.toml"},
    {"", "--model_name_or_path", "--finetuning_type", "a launch script of LLaMA-Factory",
     "plumbline import llama-factory {0} --gpus N -o plan.toml"},
    {"", "actor_rollout_ref:", "algorithm:", "a configuration of verl", "plumbline import verl {0} -o plan.toml"},
    {"", "policy:", "train_global_batch_size:", "a configuration of NeMo-RL",
     "plumbline import nemo-rl {0} -o plan.toml"},
    {"", "train_ppo_ray", "--", "a launch script of OpenRLHF", "plumbline import openrlhf {0} -o plan.toml"},
    {"", "vllm serve", "", "a command of vLLM", "plumbline import vllm {0} -o deployment.toml"},
    {"", "trtllm-serve", "--", "a command of TensorRT-LLM", "plumbline import tensorrt-llm {0} -o deployment.toml"},
    {"", "sglang.launch_server", "--", "a command of SGLang", "plumbline import sglang {0} -o deployment.toml"},
    {"", "openrlhf.cli.", "--", "a launch script of OpenRLHF", kPlanByHand},
    {"", "batch_accumulation_per_replica:", "parallelism:", "a configuration of nanotron",
     "plumbline import nanotron {0} -o plan.toml"},
    {"", "hybrid_zero_optimizer", "parallel = dict(", "a configuration of InternEvo", kPlanByHand},
    {"", "fsdp_config:", "global_train_batch_size:", "a configuration of llm-foundry",
     "no command reads it: its keys are those of a plan with stack.name = \"llm-foundry\"; plumbline show key "
     "parallelism lists them"},
    {"#!", "setup_experiment.py", "--gpu", "a script that starts a performance recipe of Megatron-Bridge",
     "plumbline import nemo RECIPE.py --config NAME reads that recipe; --set parallelism.pipeline=N states what the "
     "script changes"},
    {"", "WorkloadBaseConfig", "num_gpus=", "presets of Megatron-Bridge",
     "plumbline import nemo reads its recipes (perf_recipes) and the run_config.yaml of a run"},
    {"", "megatron sft", "--", "a launch script of ms-swift on Megatron", "plumbline import megatron {0} -o plan.toml"},
    {"", "megatron rlhf", "grpo", "a launch script of ms-swift on Megatron", kRolloutOfMegatron},
    {"", "swift/cli/_megatron/", "grpo", "a launch script of ms-swift on Megatron", kRolloutOfMegatron},
    {"", "megatron rlhf", "--", "a launch script of ms-swift on Megatron",
     "plumbline import megatron {0} -o plan.toml"},
    {"", "swift/cli/_megatron/", "--", "a launch script of ms-swift on Megatron",
     "plumbline import megatron {0} -o plan.toml"},
    {"", "--actor-num-gpus-per-node", "--rollout-batch-size", "a launch script of slime", kRolloutOfMegatron},
    {"", "allocation_mode:", "cluster:", "a configuration of AReaL", kPlanByHand},
    {"", "gconfig:", "trial_name:", "a configuration of AReaL", kPlanByHand},
    {"", "open_instruct/", "--model_name_or_path", "a launch script of open-instruct", kPlanByHand},
    {"", "\n  mp: p=", "trainer:", "a configuration of Levanter", kPlanByHand},
    {"", "_component_: torchtune", "", "a configuration of torchtune", kPlanByHand},
    {"", "FastLanguageModel.", "import ", "a training script of Unsloth", kPlanByHand},
    {"", "from trl import", "Trainer(", "a training script of TRL", kPlanByHand},
    {"", "xtuner.v1", "TrainerConfig(", "a configuration of XTuner", kPlanByHand},
    {"", "swift sft", "--", "a launch script of ms-swift", "plumbline import ms-swift {0} -o plan.toml"},
    {"", "swift rlhf", "--", "a launch script of ms-swift", "plumbline import ms-swift {0} -o plan.toml"},
    {"#!", "--max_context_width", "--hidden_width", "a launch script of awsome-distributed-ai's FSDP example",
     kPlanByHand},
    {"", "trainer:", "model:", "a recipe of NeMo", "plumbline import nemo {0} -o plan.toml"},
    {"", "def ", "Trainer.Config(", "a registry of torchtitan",
     "plumbline import torchtitan {0} --config NAME -o plan.toml"},
    {"", "[activation_checkpoint]", "[training]", "a configuration of torchtitan",
     "plumbline import torchtitan {0} -o plan.toml"},
    {"", "--per_device_train_batch_size", "--model_name_or_path", "a launch script of transformers' Trainer",
     "its file of DeepSpeed or accelerate is read: plumbline import deepspeed FILE --model NAME --gpus N, or import "
     "accelerate FILE; batch and sequence length are --set batch.micro_batch_size=N and batch.sequence_length=N"},
    {"", "torchtitan.train", "torchrun", "a launch script of torchtitan",
     "the config_registry.py of its --module is read, with its --config, and its options behind --: plumbline import "
     "torchtitan"},
    {"#!", "--", "", "a launch script", "plumbline import megatron {0} -o plan.toml"},
    {"", "def ", "megatron.bridge", "a recipe of Megatron-Bridge",
     "plumbline import nemo {0} --config NAME -o plan.toml"},
    {"", "_target_: megatron.bridge", "", "a configuration of Megatron-Bridge",
     "plumbline import nemo {0} --gpus N -o plan.toml"},
    {"", "model_name_or_path:", "finetuning_type:", "a configuration of LLaMA-Factory",
     "plumbline import llama-factory {0} --gpus N -o plan.toml"},
    {"", "base_model:", "sequence_len:", "a configuration of axolotl",
     "plumbline import axolotl {0} --gpus N -o plan.toml"},
    {"", "model:", "max_length:", "a configuration of ms-swift", "plumbline import ms-swift {0} --gpus N -o plan.toml"},
    {"rank,slot,op,", "", "", "the order of a schedule", "--set schedule.kind=file:{0} gives it to a plan"},
};

// Returns the marker of the text, if any; a training log has none.
const Marker* marker_of(const std::string& text, bool table) {
  for (const Marker& marker : markers)
    if (table == marker.one.starts_with('[') && text.starts_with(marker.begin) &&
        text.find(marker.one) != std::string::npos && text.find(marker.other) != std::string::npos)
      return &marker;
  return nullptr;
}

}  // namespace

model::Result<void> refuse_foreign(const std::string& path, std::string_view what) {
  const auto text = model::read_file(path);
  if (!text) return {};
  const auto refused = [&](std::string_view found, std::string_view command) {
    return model::wrong_input_at(path, 0, "", fmt::format("is {}, not a {}", found, what),
                                 fmt::format(fmt::runtime(command), path));
  };
  const bool table = path.ends_with(".toml");  // whose comments may quote anything
  if (!table && calibrate::is_training_log(*text)) return refused("a training log", "plumbline compare PLAN {0}");
  const Marker* marker = marker_of(*text, table);
  if (marker == nullptr || marker->what == fmt::format("a {}", what)) return {};
  return refused(marker->what, marker->command);
}

model::Result<void> refuse_unread(const std::string& path) {
  const auto text = model::read_file(path);
  const Marker* marker = text ? marker_of(*text, path.ends_with(".toml")) : nullptr;
  if (marker == nullptr || !marker->command.starts_with(kUnread)) return {};
  return model::wrong_input_at(path, 0, "", fmt::format("is {}", marker->what), std::string(marker->command));
}

model::Error of_its_format(const model::Error& error, const std::string& path, std::string_view format) {
  const auto foreign =
      error.file == path ? refuse_foreign(path, fmt::format("file of 'import {}'", format)) : model::Result<void>();
  const bool other = !foreign && foreign.error().hint.find(fmt::format("import {} ", format)) == std::string::npos;
  return other ? foreign.error() : error;
}

}  // namespace plumbline::cli
