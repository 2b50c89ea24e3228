#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "model/base/error.h"
#include "model/base/text.h"
#include "model/megatron/arguments.h"
#include "model/megatron/detail/fields.h"
#include "model/megatron/import.h"
#include "model/megatron/rules.h"

namespace plumbline::model::megatron {
namespace {

// Returns the arguments: table rows whose value is not Megatron's default, then those that the rules write.
Given arguments_of(const Plan& plan, const ModelShape& shape) {
  FieldTexts wanted = texts_of(plan), silent = texts_of(megatron_defaults());
  wanted.merge(texts_of(shape));
  silent.merge(texts_of(ModelShape()));
  Given given;
  for (const Argument& argument : arguments()) {
    if (argument.meaning != Meaning::value && argument.meaning != Meaning::flag) continue;
    const std::string& text = wanted.find(argument.key)->second;
    if (text.empty() || text == silent.find(argument.key)->second) continue;
    const std::string name(argument.name);
    argument.meaning == Meaning::flag ? given.put_flag(name) : given.put(name, text);
  }
  for (const Rule& rule : rules()) rule.write({plan, shape, given});
  // NullTokenizer adds a token.
  if (shape.vocabulary) given.put("--vocab-size", std::to_string(*shape.vocabulary - 1));
  return given;
}

std::string quoted(const std::string& value) {
  const bool plain = value.find_first_of("*()|[] ,$'\"") == std::string::npos;
  return plain ? value : "'" + value + "'";
}

std::string_view group_of(const Argument& argument) {
  if (argument.key.starts_with("shape.")) return "MODEL_ARGS";
  return argument.key.starts_with("parallelism.") || argument.key.starts_with("schedule.") ? "PARALLEL_ARGS"
                                                                                           : "TRAINING_ARGS";
}

std::string group_text(const Given& given, std::string_view group) {
  std::string text = fmt::format("{}=(\n", group);
  for (const Argument& argument : arguments()) {
    if (!given.has(argument.name) || group_of(argument) != group) continue;
    text += fmt::format("    {}", argument.name);
    for (const std::string& value : given.values(argument.name)) text += " " + quoted(value);
    text += "\n";
  }
  return text + ")\n";
}

// Returns the most GPUs per node, up to 8, that divide them.
std::int64_t gpus_per_node(std::int64_t gpus) {
  for (std::int64_t count = 8; count > 1; --count) {
    if (gpus % count == 0) return count;
  }
  return 1;
}

// Megatron-LM relies on one hardware queue for the order of its kernels; its FSDP refuses one.
std::string_view connections(const Plan& plan) {
  return plan.parallelism.zero_stage < 2 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "";
}

// The nodes find each other by Slurm's variables or those that are given; one node needs none.
constexpr std::string_view rendezvous =
    "NODE_RANK=${NODE_RANK:-${SLURM_NODEID:-0}}\n"
    "if [ -n \"${SLURM_JOB_NODELIST:-}\" ] && [ -z \"${MASTER_ADDR:-}\" ]; then\n"
    "    MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
    "fi\n"
    "MASTER_ADDR=${MASTER_ADDR:-localhost}\n"
    "MASTER_PORT=${MASTER_PORT:-29500}\n";

// Returns what Megatron requires and no plan has. NullTokenizer adds a token to the vocabulary; FSDP has a format of
// checkpoints of its own, and a graph of the whole iteration reads back no losses (megatron/training/arguments.py
// @000c4ac2, validate_args).
std::string data_text(const Given& given) {
  const bool endless = !given.has("--train-samples");
  const bool whole = given.value("--cuda-graph-impl").value_or("none") == "local";
  return fmt::format(
      "# Data that is made up, so that the script runs as it is; arguments of the script replace these.\n"
      "DATA_ARGS=(\n    --mock-data\n    --tokenizer-type NullTokenizer\n    --split '99,1,0'\n    --lr "
      "1e-4\n{}{}{})\n",
      endless ? "    --train-iters 20\n" : "",
      given.has("--use-megatron-fsdp") ? "    --ckpt-format fsdp_dtensor\n" : "",
      whole ? "    --no-check-for-nan-in-loss-and-grad\n" : "");
}

std::string script_text(const Plan& plan, const Given& given, const std::vector<std::string>& comments) {
  const std::int64_t per_node = gpus_per_node(plan.cluster.gpus);
  std::string text =
      "#!/bin/bash\n"
      "# A plan of plumbline for Megatron-LM. It runs in a clone of Megatron-LM, or with MEGATRON_LM naming one: on "
      "one\n"
      "# node as it is, on several on each of them with NODE_RANK and MASTER_ADDR, or by srun --ntasks-per-node=1.\n"
      "# plumbline import reads the lines below that begin with '# plumbline:', Megatron does not.\n";
  for (const std::string& comment : comments) text += "# plumbline: " + comment + "\n";
  text += fmt::format("set -euo pipefail\nGPUS_PER_NODE={}\nNNODES={}\n", per_node, plan.cluster.gpus / per_node);
  text += fmt::format("{}{}\n", rendezvous, connections(plan));
  for (const std::string_view group : {"MODEL_ARGS", "PARALLEL_ARGS", "TRAINING_ARGS"}) {
    text += group_text(given, group) + "\n";
  }
  const std::string program = given.has("--hybrid-layer-pattern") ? "pretrain_hybrid.py" : "pretrain_gpt.py";
  return text + data_text(given) +
         "\n"
         "torchrun --nproc-per-node \"$GPUS_PER_NODE\" --nnodes \"$NNODES\" --node-rank \"$NODE_RANK\" \\\n"
         "    --rdzv-backend static --rdzv-endpoint \"$MASTER_ADDR:$MASTER_PORT\" \\\n"
         "    \"${MEGATRON_LM:-.}/" +
         program +
         "\" \\\n"
         "    \"${MODEL_ARGS[@]}\" \\\n"
         "    \"${PARALLEL_ARGS[@]}\" \\\n"
         "    \"${TRAINING_ARGS[@]}\" \\\n"
         "    \"${DATA_ARGS[@]}\" \\\n"
         "    \"$@\"\n";
}

// Returns the plan without what a script cannot hold: another model file is named, stated phases are no keys, tokens
// are those of whole sequences, and one stage has no division.
Plan comparable(Plan plan) {
  const auto length = static_cast<double>(plan.batch.sequence_length);
  if (plan.run.tokens && *plan.run.tokens >= length) *plan.run.tokens = std::round(*plan.run.tokens / length) * length;
  StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.counts.empty() && plan.parallelism.pipeline * plan.schedule.virtual_stages == 1) layers = {};
  plan.inference = {};
  plan.rollout = {};
  plan.model = {};
  plan.model.config = "model";
  plan.run.phases.clear();
  plan.places.clear();
  return plan;
}

// Returns "KEY = VALUE" or "KEY is not set" for each key in which the plan that was read back differs.
std::vector<std::string> lost_keys(const Plan& plan, const Plan& back) {
  const std::string wanted_text = to_toml(comparable(plan)), found_text = to_toml(comparable(back));
  const auto wanted = lines_of(wanted_text), found = lines_of(found_text);
  std::vector<std::string> lost;
  std::string section;
  for (std::size_t i = 0; i < wanted.size() && i < found.size(); ++i) {
    if (wanted[i].starts_with('[')) section = wanted[i].substr(1, wanted[i].size() - 2);
    if (wanted[i] == found[i] || wanted[i].empty()) continue;
    lost.push_back(fmt::format("{}.{}", section, wanted[i].starts_with("# ") ? wanted[i].substr(2) : wanted[i]));
  }
  return lost;
}

void note_model(const ModelShape& shape, const ModelShape& back, std::vector<std::string>& notes) {
  const FieldTexts found = texts_of(back);
  for (const auto& [key, text] : texts_of(shape)) {
    if (found.at(key) == text) continue;
    notes.push_back(fmt::format("the model's {} of {} becomes {}{}", key.substr(key.find('.') + 1), text, found.at(key),
                                key == "shape.vocabulary" ? ": Megatron pads it" : ""));
  }
}

}  // namespace

Result<ExportedScript> export_script(const Plan& plan, const ModelShape& shape) {
  const Given given = arguments_of(plan, shape);
  ImportOptions options;
  options.config = "model";
  auto back = TRY(import_script(script_text(plan, given, {}), plan.file, options));
  const std::vector<std::string> lost = lost_keys(plan, back.plan);
  ExportedScript out{script_text(plan, given, lost), {}};
  for (const std::string& key : lost)
    out.notes.push_back(
        key.find(" = ") == std::string::npos
            ? fmt::format("{}; the script's arguments set it, the plan that is read back leaves it", key)
            : fmt::format("no argument of Megatron sets {}", key));
  if (plan.inference.given) out.notes.emplace_back("[inference] is left out: Megatron trains");
  if (plan.rollout.given) out.notes.emplace_back("[rollout] is left out: Megatron trains an update");
  if (!plan.run.phases.empty()) out.notes.push_back("phases that are stated, not predicted, are left out");
  note_model(shape, back.shape, out.notes);
  return out;
}

}  // namespace plumbline::model::megatron
