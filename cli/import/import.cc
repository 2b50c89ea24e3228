#include "cli/import/detail/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/components/load.h"
#include "calibrate/import/components/import.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/import/printed_files.h"
#include "calibrate/measurement/measurement.h"
#include "cli/data.h"
#include "cli/detail/foreign_file.h"
#include "cli/formats.h"
#include "cli/inputs.h"
#include "cli/inputs_reader.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/configurations/import.h"
#include "model/megatron/model_shape.h"
#include "model/memory/memory.h"
#include "reports/text/table.h"
#include "sim/interval/interval.h"
#include "sim/predict/predictor.h"
#include "topologies/formats.h"

namespace plumbline::cli {
namespace {

namespace configurations = model::configurations;

// Returns the options as keys of the plan.
std::vector<std::string> overrides_of(const ImportArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  const auto add = [&overrides](const char* key, const std::string& value) {
    overrides.push_back(fmt::format("{}={}", key, value));
  };
  if (!arguments.model.empty()) add("model.config", model::toml_string(named_model(arguments.model)));
  if (!arguments.topology.empty()) add("cluster.topology", model::toml_string(arguments.topology));
  if (arguments.gpus) add("cluster.gpus", std::to_string(*arguments.gpus));
  return overrides;
}

void print_notes(const std::string& file, const configurations::ImportedConfiguration& imported) {
  for (const configurations::Note& note : imported.notes)
    fmt::print(stderr, "{}{}: {}\n", file, note.line > 0 ? fmt::format(":{}", note.line) : "",
               model::printable(note.text));
  if (imported.no_cost > 0)
    fmt::print(stderr, "{}: {} key{} no cost\n", file, imported.no_cost,
               imported.no_cost == 1 ? " changes" : "s change");
}

// Takes the kernels of Megatron that the plan's GPUs run; the plan is read again, as if the user had set them.
model::Result<void> decide_kernels(const configurations::ConfigurationFormat& format, const std::string& text,
                                   const std::string& file, configurations::ConfigurationImport options,
                                   configurations::ImportedConfiguration& imported) {
  const std::vector<std::string> given = options.overrides;
  for (model::PlanAlternative& other : imported.alternatives) take_gpu_kernels(given, other.plan);
  const auto changes = take_gpu_kernels(given, imported.plan);
  if (changes.empty()) return {};
  for (const KernelChange& change : changes) options.overrides.push_back(change.setting);
  auto again = TRY(configurations::import_configuration(format, text, file, options));
  again.alternatives = std::move(imported.alternatives);
  for (const KernelChange& change : changes)
    again.notes.insert(again.notes.begin(), {configurations::Note::Kind::assumed, 0, change.note});
  imported = std::move(again);
  return {};
}

namespace megatron = model::megatron;

constexpr std::string_view kStack = "primus-2026";

// Returns the command that starts the training, on one node of eight GPUs unless the environment has others.
megatron::Script script_of(const std::vector<configurations::MegatronArgument>& arguments,
                           const megatron::Definitions& environment) {
  megatron::Script script;
  const auto value = [&](const std::string& name, const std::string& silent) {
    const auto found = environment.find(name);
    if (found == environment.end()) script.defaults.push_back({fmt::format("{}={}", name, silent), 1});
    return found == environment.end() || found->second.empty() ? silent : found->second;
  };
  const std::string nodes = value("NNODES", "1"), gpus = value("GPUS_PER_NODE", "8");
  megatron::Command& command = script.commands.emplace_back(megatron::Command{
      {"torchrun", 1}, {"--nnodes", 1}, {nodes, 1}, {"--nproc_per_node", 1}, {gpus, 1}, {"pretrain_gpt.py", 1}});
  for (const configurations::MegatronArgument& argument : arguments) {
    command.push_back({argument.name, argument.line});
    for (const std::string& word : argument.values) command.push_back({word, argument.line});
  }
  return script;
}

// Gives the vocabulary of the shipped model, which an experiment leaves to its tokenizer.
model::Result<void> give_vocabulary(const configurations::PrimusExperiment& experiment,
                                    configurations::PrimusArguments& given) {
  const auto states = [](const configurations::MegatronArgument& one) { return one.name == "--vocab-size"; };
  if (experiment.shipped.empty() || std::ranges::any_of(given.arguments, states)) return {};
  const auto path = TRY(resolve_model("", experiment.shipped));
  const auto text = TRY(model::read_text_file(path));
  const auto shape = TRY(model::megatron::nearest_shape_of(text, path, {}));
  const int line = given.arguments.empty() ? 1 : given.arguments.front().line;
  if (shape.vocabulary)
    given.arguments.insert(given.arguments.begin(), {"--vocab-size", {std::to_string(*shape.vocabulary)}, line});
  return {};
}

// Every format that can be imported.
constexpr Format<ImportArguments> import_formats[] = {
    {"kineto", "a trace of the PyTorch profiler, .json or .json.gz, to a chunk measurement (.csv)",
     &import_kineto_trace},
    {"nccl-topology", "a topology dump of NCCL or RCCL (NCCL_TOPO_DUMP_FILE), .xml, to a topology file (.toml)",
     &import_nccl_topology},
    {"megatron",
     "a launch script of Megatron-LM, or of ms-swift's megatron sft, .sh, to a plan (.toml) with the model's "
     "config.json next to it",
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
    {"ms-swift",
     "a launch script of ms-swift (swift pt, swift sft, swift rlhf), .sh, or its configuration, .yaml, to a plan; "
     "import megatron reads megatron sft",
     &import_configuration},
    {"primus", "an experiment of AMD's Primus on Megatron-LM or torchtitan, .yaml, to a plan", &import_primus},
    {"nanotron", "a configuration of nanotron, .yaml, to a plan", &import_configuration},
    {"verl", "a launch script of verl, .sh, or the config.yaml that Hydra keeps of a run, to a plan with [rollout]",
     &import_configuration},
    {"nemo-rl", "a configuration of NeMo-RL (GRPO, SFT, DPO), .yaml, to a plan, of GRPO with [rollout]",
     &import_configuration},
    {"openrlhf", "a launch script of OpenRLHF's train_ppo_ray, .sh, to a plan with [rollout]", &import_configuration},
    {"vllm", "a command that serves a model by vLLM, .sh, or its --config, .yaml, to a plan of a deployment",
     &import_configuration},
    {"sglang", "a command that serves a model by SGLang's launch_server, .sh, or its --config, .yaml, to such a plan",
     &import_configuration},
    {"tensorrt-llm", "a script that runs trtllm-serve, .sh, or its --extra_llm_api_options, .yaml, to such a plan",
     &import_configuration},
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
         "  plumbline import megatron run_mcore.sh -o plan.toml -- 8B 1 256 4096\n"
         "  plumbline import torchtitan train.toml --gpus 128 -o plan.toml\n"
         "  plumbline import torchtitan torchtitan/models/llama3/config_registry.py --config llama3_8b --gpus 64 "
         "-o plan.toml -- --training.local-batch-size 4\n"
         "  plumbline import deepspeed ds_config.json --gpus 64 --model llama-3-8b "
         "--set batch.sequence_length=8192 -o plan.toml\n"
         "  plumbline import accelerate config.yaml --model qwen3-8b "
         "--set batch.sequence_length=4096 --set batch.micro_batch_size=1 -o plan.toml\n"
         "  plumbline import nemo recipe.yaml -o plan.toml\n"
         "  plumbline import automodel recipe.yaml --gpus 8 -o plan.toml\n"
         "  plumbline import llama-factory sft.yaml --gpus 8 -o plan.toml\n"
         "  plumbline import primus examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml -o plan.toml\n"
         "  plumbline import verl run_grpo.sh --set rollout.prompt_tokens=256 --set rollout.answer_tokens=2048 "
         "--set rollout.answer_tokens_sd=2048 -o plan.toml\n"
         "  plumbline import vllm serve.sh --topology h200-hgx -o deployment.toml\n"
         "  plumbline import hf models/Llama-3-8B --gpus 64 --topology h100-dgx -o plan.toml\n"
         "  plumbline import nccl-tests all_reduce.txt -o measurements.csv\n"
         "  plumbline import kineto trace.json --device 1 --classes my-kernels.toml -o chunk.csv\n"
         "  plumbline import nccl-topology node.xml -o my-cluster.toml\n"
         "  plumbline import components gemm.csv attention.csv --revision 095f58a5 -o tables";
}

// Refuses an option that only other formats read.
model::Result<void> refuse_foreign_option(const std::string& format, const ImportArguments& given) {
  const bool trace = format == "kineto", script = format == "megatron", tables = format == "components";
  constexpr std::string_view launched[] = {"megatron",      "primus", "verl",   "openrlhf",    "ms-swift",
                                           "llama-factory", "vllm",   "sglang", "tensorrt-llm"};
  const bool plan = !trace && !tables && format != "nccl-tests" && format != "nccl-topology";
  const struct {
    bool is_foreign;
    std::string_view name;
    std::string of;
  } options[] = {{given.execute && !script, "--execute", "'import megatron'"},
                 {!given.revision.empty() && !tables, "--revision", "'import components'"},
                 {given.device && !trace, "--device", "'import kineto'"},
                 {given.step && !trace, "--step", "'import kineto'"},
                 {!given.classes.empty() && !trace, "--classes", "'import kineto'"},
                 {!given.definitions.empty() && std::ranges::find(launched, format) == std::end(launched), "--define",
                  "scripts: " + fmt::format("{}", fmt::join(launched, ", "))},
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

// Takes a model by its name on Hugging Face, too.
model::Result<void> take_model(ImportArguments& arguments) {
  const auto shipped = resolve_model("", arguments.model);
  const bool is_path = arguments.model.ends_with(".json") || arguments.model.starts_with('.');
  if (shipped || is_path) return shipped.map([](const std::string&) {});
  const auto found = configurations::find_named_model(arguments.model, &load_model);
  if (!found || found->further || found->model.shipped.starts_with('/')) return tl::unexpected(shipped.error());
  fmt::print(stderr, "--model {}: the model is {}, by its name\n", arguments.model, found->model.shipped);
  arguments.model = found->model.shipped;
  return {};
}

// Runs a format with its files.
model::Result<void> run_import(const std::string& format, ImportArguments& arguments) {
  arguments.file = arguments.files.front();
  arguments.format = format;
  if (arguments.files.size() > 1 && format != "components" && format != "torchtitan" && format != "megatron")
    return model::wrong_input("FILE", fmt::format("'{}' is one file too many", arguments.files[1]),
                              "only 'import components' takes several");
  TRY(refuse_foreign_option(format, arguments));
  TRY(refuse_unread(arguments.file));
  if (!arguments.model.empty()) TRY(take_model(arguments));
  if (!arguments.topology.empty()) TRY(find_topology(arguments.topology, {}));
  return run_format<ImportArguments>(import_formats, format, arguments).map_error([&](const model::Error& error) {
    return of_its_format(error, arguments.file, format);
  });
}

}  // namespace

model::Result<model::Architecture> load_model(const std::string& config) {
  return resolve_model("", config).and_then(model::load_architecture);
}

std::string named_model(const std::string& model) {
  return model::is_file(model) ? std::filesystem::absolute(model).string() : model;
}

model::Result<void> import_configuration(const ImportArguments& arguments) {
  TRY(refuse_own_input(arguments.out, arguments.file));
  const auto& formats = configurations::configuration_formats();
  const auto found = std::ranges::find(formats, arguments.format, &configurations::ConfigurationFormat::name);
  const auto text = TRY(model::read_text_file(arguments.file));
  const std::filesystem::path config = adjacent_config(arguments.out);
  const std::string adjacent = !is_beside_files(arguments.out) ? "" : config.filename().string();
  configurations::ConfigurationImport options{overrides_of(arguments),
                                              arguments.function,
                                              adjacent,
                                              &load_model,
                                              {arguments.files.begin() + 1, arguments.files.end()},
                                              TRY(definitions_of(arguments))};
  auto imported = TRY(configurations::import_configuration(*found, text, arguments.file, options));
  if (found->name == "nemo") TRY(decide_kernels(*found, text, arguments.file, options, imported));
  if (imported.config_json) {
    TRY(write_adjacent_config(arguments.out, *imported.config_json));
    fmt::print(stderr, "{}: the model as a config.json\n", config.string());
  }
  TRY(write_output(arguments.out, imported.toml));
  const std::string written = imported.config_json ? std::filesystem::absolute(config).string() : "";
  const auto place = [](int line) { return fmt::format("line {}", line); };
  print_decisions({imported.plan, imported.alternatives, place, written, arguments.verbose});
  print_notes(arguments.file, imported);
  return {};
}

model::Result<void> import_hf(const ImportArguments& arguments) {
  std::error_code ignored;
  namespace fs = std::filesystem;
  const fs::path given(arguments.file);
  const std::string path = fs::is_directory(given, ignored) ? (given / "config.json").string() : arguments.file;
  TRY(refuse_own_input(arguments.out, path));
  if (!arguments.model.empty()) return model::wrong_input("--model", "the folder names the model");
  if (!arguments.gpus &&
      std::ranges::none_of(arguments.overrides, [](const auto& text) { return text.starts_with("cluster.gpus="); }))
    return model::wrong_input("--gpus", "a model does not state on how many GPUs it trains", "for example --gpus 64");
  const auto architecture = TRY(model::load_architecture(path));
  const auto fits = [](const model::Plan& plan) -> model::Result<bool> {
    const auto inputs = TRY(InputsReader().of_plan(plan));
    model::Memory memory = TRY(sim::Predictor(inputs).memory(inputs.plan));
    sim::add_fit(inputs, memory);
    return model::fit_of(memory) == model::Fit::fits;
  };
  const auto imported = TRY(configurations::starting_plan(fs::absolute(path, ignored).lexically_normal().string(), path,
                                                          architecture, overrides_of(arguments), fits));
  TRY(write_output(arguments.out, imported.toml));
  print_notes(path, imported);
  return {};
}

model::Result<void> import_primus(const ImportArguments& given) {
  const auto text = TRY(model::read_text_file(given.file));
  const auto definitions = TRY(definitions_of(given));
  const auto experiment = TRY(configurations::read_primus(text, given.file, definitions));
  if (experiment.framework == "torchtitan") return import_configuration(given);
  ImportArguments arguments = given;
  auto stated = configurations::megatron_arguments(experiment);
  if (arguments.topology.empty()) arguments.topology = configurations::primus_topology(given.file);
  TRY(give_vocabulary(experiment, stated));
  if (arguments.model.empty() && !experiment.has_model) arguments.model = experiment.shipped;
  if (arguments.model.empty() && !experiment.has_model)
    return model::wrong_input_at(
        given.file, 0, "modules.pre_trainer.model",
        fmt::format("the preset '{}' is not among the files, and no shipped model has its name", experiment.model),
        "--model names a model");
  arguments.overrides.insert(arguments.overrides.begin(), stated.settings.begin(), stated.settings.end());
  const auto import = [&](const megatron::ImportOptions& options) {
    return megatron::import_script(script_of(stated.arguments, definitions), given.file, options);
  };
  MegatronScript script{import, std::string(kStack)};
  if (!experiment.defaults.empty())
    script.notes.push_back({0, fmt::format("the file's own values hold, --define changes them: {}",
                                           fmt::join(experiment.defaults, ", "))});
  if (!experiment.has_model)
    script.notes.push_back({0, fmt::format("the presets of Primus are not among the files: the model is {}, the rest "
                                           "as their newest version has it",
                                           arguments.model)});
  for (auto& [line, note] : stated.unread)
    script.notes.push_back({line, std::move(note), megatron::NoteKind::not_modeled});
  return import_megatron_script(arguments, script);
}

// Measurements, topologies and component tables of other programs.

// Writes JSON Lines to a .jsonl file, else CSV.
model::Result<void> import_nccl_tests(const ImportArguments& arguments) {
  const auto text = TRY(model::read_file(arguments.file));
  const auto measurements = TRY(calibrate::parse_nccl_tests(text, arguments.file));
  const bool lines = arguments.out.ends_with(".jsonl");
  TRY(write_output(arguments.out, lines ? calibrate::to_jsonl(measurements) : calibrate::to_csv(measurements)));
  const calibrate::Measurement& first = measurements.values.front();
  fmt::print(stderr, "{} times of {} on {} x {}\n", measurements.values.size(), first.op, first.shape[1].second,
             first.device);
  return {};
}

// Prints to stderr what is assumed or left out.
model::Result<void> import_nccl_topology(const ImportArguments& arguments) {
  const auto imported = TRY(topologies::import_nccl_topology(arguments.file));
  TRY(write_output(arguments.out, imported.toml));
  for (const std::string& note : imported.notes) fmt::print(stderr, "{}\n", model::printable(note));
  return {};
}

// Writes a file for each GPU and table below the folder, and reads it again as a fit does. Prints to stderr their rows.
model::Result<void> import_components(const ImportArguments& arguments) {
  if (arguments.out == "-") return model::wrong_input("--output", "component tables need a folder");
  const auto tables = TRY(calibrate::import_components(arguments.files, arguments.revision));
  for (const calibrate::ComponentFile& table : tables) {
    const std::filesystem::path path = std::filesystem::path(arguments.out) / table.path;
    TRY(write_output_in(arguments.out, table.path, table.text));
    const auto times = TRY(calibrate::check_component_table(path.string()));
    fmt::print(stderr, "{}: rows read {}, times written {}\n", path.string(), table.read, times);
  }
  return {};
}

namespace {

void print_what_was_taken(const calibrate::ImportedChunk& imported) {
  const auto pieces = imported.kernels + imported.copies;
  fmt::print(stderr, "device {}: kernels {}, copies and memory sets {}; with a phase {} of {}\n", imported.device,
             imported.kernels, imported.copies, imported.with_phase, pieces);
  for (const std::string& finding : imported.findings) fmt::print(stderr, "{}\n", model::printable(finding));
  if (imported.with_phase == 0)
    fmt::print(stderr, "no kernel has a phase: record with torch.profiler.record_function around the passes\n");
  if (imported.found.size() < 2) return;
  fmt::print(stderr, "kernels by device (--device takes another one): {}\n",
             calibrate::describe_devices(imported.found));
}

void list_unknown(const calibrate::ImportedChunk& imported, const std::string& classes) {
  constexpr std::size_t most_listed = 10, widest_name = 100;
  constexpr double percent = 100, ps_per_s = 1e12;
  const std::vector<calibrate::UnknownKernel>& unknown = imported.unknown;
  if (unknown.empty()) return;
  double seconds = 0, all = 0;
  for (const calibrate::UnknownKernel& kernel : unknown) seconds += kernel.seconds;
  for (const model::Span& span : imported.timeline.spans)
    if (span.kernel >= 0) all += static_cast<double>(span.duration_ps) / ps_per_s;
  fmt::print(stderr, "kernel names without a class: {}, {} in all, {:.1f} % of the kernels' time; the longest:\n",
             unknown.size(), reports::duration(seconds), all > 0 ? percent * seconds / all : 0);
  reports::Table table(">time | >count | kernel");
  for (std::size_t i = 0; i < std::min(unknown.size(), most_listed); ++i)
    table.add({reports::duration(unknown[i].seconds), std::to_string(unknown[i].count),
               model::printable(unknown[i].name.substr(0, widest_name))});
  fmt::print(stderr, "{}add a pattern for them to a copy of {} and pass it with --classes\n", table.to_string(),
             classes);
}

}  // namespace

// Prints to stderr the selected kernels, and those without a class.
model::Result<void> import_kineto_trace(const ImportArguments& arguments) {
  const auto classes = TRY(kernel_classes_file(arguments.classes).and_then(calibrate::load_kernel_classes));
  const auto imported = TRY([&] {
    ProgressBar bar("reading " + arguments.file);
    return calibrate::import_kineto(
        arguments.file, classes,
        {arguments.device, [&](auto done, auto total) { bar.update(done, total); }, arguments.step});
  }());
  TRY(write_output(arguments.out, calibrate::to_csv(imported.timeline, imported.comments)));
  print_what_was_taken(imported);
  list_unknown(imported, arguments.classes.empty() ? "share/plumbline/kernels.toml" : arguments.classes);
  return {};
}

model::Result<void> refuse_own_input(const std::string& out, const std::string& file) {
  std::error_code ignored;
  if (out == "-" || !std::filesystem::equivalent(out, file, ignored)) return {};
  return model::wrong_input("--output", fmt::format("'{}' is a file that is read", out),
                            "name another file for the plan");
}

bool is_beside_files(const std::string& plan) {
  std::error_code ignored;
  return plan != "-" && !std::filesystem::is_character_file(plan, ignored);
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
                   "megatron, torchtitan: arguments of the script or the training, behind --");
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
                 "plans of scripts: NAME=VALUE of a variable that the script does not set (repeatable)");
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
