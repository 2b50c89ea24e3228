#include "cli/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "cli/data.h"
#include "cli/detail/foreign_file.h"
#include "cli/formats.h"
#include "cli/inputs_reader.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

// Every format that can be imported.
constexpr Format<ImportArguments> import_formats[] = {
    {"kineto", "a trace of the PyTorch profiler, .json or .json.gz, to a chunk measurement (.csv)",
     &import_kineto_trace},
    {"nccl-topology", "a topology dump of NCCL or RCCL (NCCL_TOPO_DUMP_FILE), .xml, to a topology file (.toml)",
     &import_nccl_topology},
    {"megatron", "a launch script of Megatron-LM, .sh, to a plan (.toml) with the model's config.json next to it",
     &import_megatron},
    {"torchtitan", "a config_registry.py of torchtitan, a configuration it dumped (.json) or a train.toml to a plan",
     &import_configuration},
    {"deepspeed", "a ds_config.json of DeepSpeed to a plan; --model and --set batch.sequence_length=N add the model",
     &import_configuration},
    {"accelerate", "a config.yaml of accelerate (FSDP, DeepSpeed, Megatron-LM) to a plan", &import_configuration},
    {"nemo", "a recipe of NeMo or Megatron-Bridge, .yaml or .py, to a plan", &import_configuration},
    {"automodel", "a recipe of NeMo AutoModel, .yaml, to a plan", &import_configuration},
    {"llama-factory", "a configuration of LLaMA-Factory, .yaml, to a plan", &import_configuration},
    {"axolotl", "a configuration of axolotl, .yaml, to a plan", &import_configuration},
    {"ms-swift", "a launch script of ms-swift (swift sft, swift rlhf), .sh, or its configuration, .yaml, to a plan",
     &import_configuration},
    {"primus", "an experiment of AMD's Primus on Megatron-LM or torchtitan, .yaml, to a plan", &import_primus},
    {"nanotron", "a configuration of nanotron, .yaml, to a plan", &import_configuration},
    {"verl", "a launch script of verl, .sh, or the config.yaml that Hydra keeps of a run, to a plan with [rollout]",
     &import_configuration},
    {"nemo-rl", "a configuration of NeMo-RL (GRPO, SFT, DPO), .yaml, to a plan, of GRPO with [rollout]",
     &import_configuration},
    {"openrlhf", "a launch script of OpenRLHF's train_ppo_ray, .sh, to a plan with [rollout]", &import_configuration},
    {"hf", "the folder of a Hugging Face model, or its config.json, to a first plan that fits on --gpus", &import_hf},
    {"nccl-tests", "the text output of NVIDIA's nccl-tests to measurements (.csv or .jsonl)", &import_nccl_tests},
    {"components", "kernel and transfer times of ai-dynamo/aiconfigurator and ROCm/aiter, .csv, to a folder of tables",
     &import_components},
};

std::string import_footer() {
  return format_list<ImportArguments>(import_formats) +
         "\nKernels that no class of the class file matches are listed on stderr; docs/measuring.md describes how\n"
         "to record a trace and how to add a class.\n\n"
         "Examples:\n"
         "  plumbline import kineto trace.json.gz -o chunk.csv\n"
         "  plumbline import megatron launch.sh --topology h100-dgx --define NNODES=16 -o plan.toml\n"
         "  plumbline import megatron launch.sh --model deepseek-v3 --args \"--vocab-size 129280\" -o plan.toml\n"
         "  plumbline import megatron --execute launch.sh -o plan.toml -- --nodes 16\n"
         "  plumbline import torchtitan train.toml --gpus 128 -o plan.toml\n"
         "  plumbline import torchtitan torchtitan/models/llama3/config_registry.py --config llama3_8b --gpus 64 \\\n"
         "      -o plan.toml -- --training.local-batch-size 4\n"
         "  plumbline import deepspeed ds_config.json --gpus 64 --model llama-3-8b \\\n"
         "      --set batch.sequence_length=8192 -o plan.toml\n"
         "  plumbline import accelerate config.yaml --model qwen3-8b \\\n"
         "      --set batch.sequence_length=4096 --set batch.micro_batch_size=1 -o plan.toml\n"
         "  plumbline import nemo recipe.yaml -o plan.toml\n"
         "  plumbline import automodel recipe.yaml --gpus 8 -o plan.toml\n"
         "  plumbline import llama-factory sft.yaml --gpus 8 -o plan.toml\n"
         "  plumbline import primus examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml -o plan.toml\n"
         "  plumbline import verl run_grpo.sh --set rollout.prompt_tokens=256 --set rollout.answer_tokens=2048 \\\n"
         "      --set rollout.answer_tokens_sd=2048 -o plan.toml\n"
         "  plumbline import hf models/Llama-3-8B --gpus 64 --topology h100-dgx -o plan.toml\n"
         "  plumbline import nccl-tests all_reduce.txt -o measurements.csv\n"
         "  plumbline import kineto trace.json --device 1 --classes my-kernels.toml -o chunk.csv\n"
         "  plumbline import nccl-topology node.xml -o my-cluster.toml\n"
         "  plumbline import components gemm.csv attention.csv --revision 095f58a5 -o tables";
}

// Refuses an option that only other formats read.
model::Result<void> refuse_foreign_option(const std::string& format, const ImportArguments& given) {
  const bool trace = format == "kineto", script = format == "megatron";
  const bool plan = !trace && format != "components" && format != "nccl-tests" && format != "nccl-topology";
  const struct {
    bool is_foreign;
    std::string_view name, of;
  } options[] = {{given.device && !trace, "--device", "'import kineto'"},
                 {given.step && !trace, "--step", "'import kineto'"},
                 {!given.classes.empty() && !trace, "--classes", "'import kineto'"},
                 {!given.definitions.empty() && !script && format != "primus", "--define",
                  "'import megatron' and 'import primus'"},
                 {!given.more_arguments.empty() && !script, "--args", "'import megatron'"},
                 {!given.function.empty() && (!plan || script || format == "hf"), "--config", "files of Python"},
                 {!given.model.empty() && !plan, "--model", "plans"},
                 {!given.topology.empty() && !plan, "--topology", "plans"},
                 {given.gpus && !plan, "--gpus", "plans"},
                 {!given.overrides.empty() && !plan, "--set", "plans"}};
  for (const auto& [is_foreign, name, of] : options)
    if (is_foreign) return model::wrong_input(std::string(name), fmt::format("only for {}", of));
  return {};
}

// Runs a format with its files.
model::Result<void> run_import(const std::string& format, ImportArguments& arguments) {
  arguments.file = arguments.files.front();
  arguments.format = format;
  if (arguments.execute && format != "megatron") return model::wrong_input("--execute", "only for 'import megatron'");
  if (arguments.files.size() > 1 && format != "components" && format != "torchtitan" && !arguments.execute)
    return model::wrong_input("FILE", fmt::format("'{}' is one file too many", arguments.files[1]),
                              "only 'import components' takes several");
  TRY(refuse_foreign_option(format, arguments));
  if (!arguments.revision.empty() && format != "components")
    return model::wrong_input("--revision", "only for 'import components'");
  TRY(refuse_unread(arguments.file));
  if (!arguments.model.empty()) TRY(resolve_model("", arguments.model));
  if (!arguments.topology.empty()) TRY(find_topology(arguments.topology, {}));
  return run_format<ImportArguments>(import_formats, format, arguments).map_error([&](model::Error error) {
    return of_its_format(std::move(error), arguments.file, format);
  });
}

}  // namespace

model::Result<void> refuse_own_input(const std::string& out, const std::string& file) {
  std::error_code ignored;
  if (out == "-" || !std::filesystem::equivalent(out, file, ignored)) return {};
  return model::wrong_input("--output", fmt::format("'{}' is a file that is read", out),
                            "name another file for the plan");
}

std::string adjacent_config(const std::string& plan) {
  return std::filesystem::path(plan).replace_extension(".json").string();
}

model::Result<void> write_adjacent_config(const std::string& plan, const std::string& json) {
  const std::string path = adjacent_config(plan);
  if (path == plan)
    return model::wrong_input("--output", fmt::format("'{}' is the name of the model's file", plan),
                              "name the plan .toml");
  const auto present = model::read_text_file(path);
  if (present && *present == json) return {};
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    return model::wrong_input(path, "is there already, and the file's model would replace it",
                              "remove it, or name another plan with -o");
  return write_new_file(path, json);
}

void add_import(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand(
      "import", "Convert files of other programs: traces, launch scripts, topologies, measurements");
  struct Options {
    std::string format;
    ImportArguments arguments;
    std::vector<std::string> script_arguments;
  };
  const auto options = std::make_shared<Options>();
  const std::vector<std::string> known = format_names<ImportArguments>(import_formats);
  // An unknown format is refused before what else is missing, so that a file without one is.
  const auto unknown_format = [known](const std::string& name) -> std::string {
    if (std::ranges::find(known, name) != known.end()) return "";
    return fmt::format("unknown format '{}' ({})", name, model::known_names(name, known));
  };
  verb->add_option("FORMAT", options->format, fmt::format("Format of FILE: {}", fmt::join(known, ", ")))
      ->required()
      ->check(unknown_format);
  verb->add_option("FILE", options->arguments.files, "File to read; of components several")->required();
  // FILE takes them, too; without a further positional CLI11 hands what is behind -- to the program's own.
  verb->add_option("SCRIPT_ARGUMENT", options->script_arguments,
                   "megatron --execute, torchtitan: arguments of the script or the training, behind --");
  verb->add_option("-o,--output", options->arguments.out, "File for the result; - is stdout; components: a folder")
      ->required();
  verb->add_option("--device", options->arguments.device,
                   "kineto: the GPU to take from a trace of several (default: the one with most kernels)");
  verb->add_option("--step", options->arguments.step,
                   "kineto: the step to take from a trace of several (default: the one of median length)");
  verb->add_option("--classes", options->arguments.classes,
                   "kineto: classes of kernels by name (default: the shipped kernels.toml)");
  verb->add_option("--model", options->arguments.model,
                   "plans: a shipped model or a config.json (default: the one the file describes)");
  verb->add_option("--topology", options->arguments.topology,
                   "plans: the cluster (default: h100-dgx; primus: that of the folder's name, else mi300x)");
  verb->add_option("--config", options->arguments.function,
                   "plans of Python files: the function whose configuration is read (default: the only one)");
  verb->add_option("--gpus", options->arguments.gpus, "plans: the number of GPUs, where the file does not state it")
      ->check(CLI::Range(1, 1'000'000'000));
  add_repeatable(*verb, "--define", options->arguments.definitions,
                 "megatron, primus: NAME=VALUE of a variable that the script does not set (repeatable)");
  verb->add_option("--args", options->arguments.more_arguments, "megatron: arguments to add to those of the script");
  CLI::Option* execute = verb->add_flag(
      "--execute", options->arguments.execute,
      "megatron: run the script in bash, in an empty folder, with recorders in place of what trains, changes "
      "files or reaches out; what it starts is imported. Only for scripts that you would start");
  verb->add_option("--deadline", options->arguments.deadline_s, "megatron --execute: seconds until the script is ended")
      ->needs(execute)
      ->check(CLI::Range(0.1, 86400.0));
  add_repeatable(*verb, "--set", options->arguments.overrides, "plans: set a key of the plan (repeatable)");
  verb->add_flag("--verbose", options->arguments.verbose,
                 "list what changes the step by less than 0.1 % too; megatron: arguments that change no cost");
  verb->add_option("--revision", options->arguments.revision,
                   "components: the commit of ai-dynamo/aiconfigurator that the tables are from");
  verb->footer(import_footer());
  verb->callback([options, &exit_code] { exit_code = exit_of(run_import(options->format, options->arguments)); });
}

}  // namespace plumbline::cli
