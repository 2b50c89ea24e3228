#include "calibrate/import/kineto/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/components/load.h"
#include "calibrate/import/components/import.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/nccl_tests.h"
#include "calibrate/measurement/measurement_file.h"
#include "cli/data.h"
#include "cli/formats.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "model/base/text_file.h"
#include "model/megatron/import.h"
#include "reports/text/format.h"
#include "reports/text/table.h"
#include "topologies/nccl_topology.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
namespace megatron = model::megatron;

struct ImportArguments {
  std::vector<std::string> files;    // several of component tables, else one
  std::string file, out;             // file: the first
  std::string classes;               // of kernels; empty: the shipped ones
  std::optional<int> device;         // of a trace with several
  std::optional<std::int64_t> step;  // of a trace with several
  std::string revision;              // of component tables
  // Options of a launch script:
  std::string model;                     // shipped or a path; empty: the script's own
  std::string topology;                  // empty: h100-dgx
  std::vector<std::string> definitions;  // NAME=VALUE of variables that the script does not set
  std::string more_arguments;            // appended to the script's arguments
  std::vector<std::string> overrides;    // of the plan
};

void print_what_was_taken(const calibrate::ImportedChunk& imported) {
  const auto pieces = imported.kernels + imported.copies;
  fmt::print(stderr, "device {}: kernels {}, copies and memory sets {}; with a phase {} of {}\n", imported.device,
             imported.kernels, imported.copies, imported.with_phase, pieces);
  for (const std::string& finding : imported.findings) fmt::print(stderr, "{}\n", finding);
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
               unknown[i].name.substr(0, widest_name)});
  fmt::print(stderr, "{}add a pattern for them to a copy of {} and pass it with --classes\n", table.to_string(),
             classes);
}

// Prints to stderr the selected kernels, and those without a class.
model::Result<void> import_kineto_trace(const ImportArguments& arguments) {
  const auto classes = TRY(kernel_classes_file(arguments.classes).and_then(calibrate::load_kernel_classes));
  const auto imported = [&] {
    ProgressBar bar("reading " + arguments.file);
    return calibrate::import_kineto(
        arguments.file, classes,
        {arguments.device, [&](auto done, auto total) { bar.update(done, total); }, arguments.step});
  }();
  if (!imported) return tl::unexpected(imported.error());
  TRY(write_output(arguments.out, calibrate::to_csv(imported->timeline, imported->comments)));
  print_what_was_taken(*imported);
  list_unknown(*imported, arguments.classes.empty() ? "share/plumbline/kernels.toml" : arguments.classes);
  return {};
}

// Returns the path of the model's config.json: next to the plan, under its name.
std::string adjacent_config(const std::string& plan) { return fs::path(plan).replace_extension(".json").string(); }

model::Result<void> name_model(const ImportArguments& arguments, megatron::ImportOptions& options) {
  if (arguments.model.empty()) {
    if (arguments.out == "-")
      return model::wrong_input("--output", "the model of the script needs a file next to the plan",
                                "name the plan's file, or a model with --model");
    options.config = fs::path(adjacent_config(arguments.out)).filename().string();
    return {};
  }
  const auto path = TRY(resolve_model("", arguments.model));
  const auto text = TRY(model::read_text_file(path));
  const auto shape = TRY(megatron::shape_of(text, path, {}));
  options.model = shape;
  // A file is named by its whole path, since the plan may be in another folder; a shipped model by its name.
  std::error_code ignored;
  const bool own = fs::is_regular_file(arguments.model, ignored);
  options.config = own ? fs::absolute(arguments.model, ignored).string() : arguments.model;
  return {};
}

model::Result<megatron::ImportOptions> options_of(const ImportArguments& arguments) {
  megatron::ImportOptions options;
  for (const std::string& text : arguments.definitions) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return model::wrong_input("--define", fmt::format("'{}' is not NAME=VALUE", text),
                                "for example --define NNODES=16");
    options.definitions[text.substr(0, equals)] = text.substr(equals + 1);
  }
  options.more_arguments = arguments.more_arguments;
  options.overrides = arguments.overrides;
  if (!arguments.topology.empty()) options.topology = arguments.topology;
  TRY(name_model(arguments, options));
  return options;
}

// Writes the model's config.json next to the plan; prints to stderr the assumptions and the unsupported arguments.
model::Result<void> import_megatron(const ImportArguments& arguments) {
  const auto text = TRY(model::read_text_file(arguments.file));
  const auto options = TRY(options_of(arguments));
  auto imported = TRY(megatron::import_script(text, arguments.file, options));
  if (imported.config) {
    const std::string path = adjacent_config(arguments.out);
    const auto present = model::read_text_file(path);
    if (present && *present != imported.config->json)
      return model::wrong_input(path, "there is another model in this file, which the script's would replace",
                                "remove it, or name another plan with -o");
    TRY(write_output(path, imported.config->json));
    fmt::print(stderr, "{}: the model as a config.json of type {}\n", path, imported.config->model_type);
  }
  if (!imported.plan.stack.name) imported.plan.stack.name = "megatron-core-2025";
  TRY(write_output(arguments.out, to_toml(imported.plan)));
  for (const megatron::Note& note : imported.notes) {
    const std::string place = note.line > 0 ? fmt::format("{}:{}", arguments.file, note.line) : arguments.file;
    fmt::print(stderr, "{}: {}\n", place, note.text);
  }
  return {};
}

// Writes JSON Lines to a .jsonl file, else CSV.
model::Result<void> import_nccl_tests(const ImportArguments& arguments) {
  if (arguments.device || !arguments.classes.empty())
    return model::wrong_input(arguments.device ? "--device" : "--classes", "only for 'import kineto'");
  const auto text = TRY(model::read_text_file(arguments.file));
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
  for (const std::string& note : imported.notes) fmt::print(stderr, "{}\n", note);
  return {};
}

// Writes a file for each GPU and table below the folder, and reads it again as a fit does. Prints to stderr their rows.
model::Result<void> import_components(const ImportArguments& arguments) {
  if (arguments.out == "-") return model::wrong_input("--output", "component tables need a folder");
  const auto tables = TRY(calibrate::import_components(arguments.files, arguments.revision));
  for (const calibrate::ComponentFile& table : tables) {
    const fs::path path = fs::path(arguments.out) / table.path;
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    if (failed) return model::wrong_input_at(path.parent_path().string(), 0, "", "cannot be made: " + failed.message());
    TRY(write_output(path.string(), table.text));
    const auto times = TRY(calibrate::check_component_table(path.string()));
    fmt::print(stderr, "{}: rows read {}, times written {}\n", path.string(), table.read, times);
  }
  return {};
}

// Every format that can be imported.
constexpr Format<ImportArguments> import_formats[] = {
    {"kineto", "a trace of the PyTorch profiler, .json or .json.gz, to a chunk measurement (.csv)",
     &import_kineto_trace},
    {"nccl-topology", "a topology dump of NCCL or RCCL (NCCL_TOPO_DUMP_FILE), .xml, to a topology file (.toml)",
     &import_nccl_topology},
    {"megatron", "a launch script of Megatron-LM, .sh, to a plan (.toml) with the model's config.json next to it",
     &import_megatron},
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
         "  plumbline import nccl-tests all_reduce.txt -o measurements.csv\n"
         "  plumbline import kineto trace.json --device 1 --classes my-kernels.toml -o chunk.csv\n"
         "  plumbline import nccl-topology node.xml -o my-cluster.toml\n"
         "  plumbline import components gemm.csv attention.csv --revision 095f58a5 -o tables";
}

// Runs a format with its files.
model::Result<void> run_import(const std::string& format, ImportArguments& arguments) {
  arguments.file = arguments.files.front();
  if (arguments.files.size() > 1 && format != "components")
    return model::wrong_input("FILE", fmt::format("'{}' is one file too many", arguments.files[1]),
                              "only 'import components' takes several");
  if (!arguments.revision.empty() && format != "components")
    return model::wrong_input("--revision", "only for 'import components'");
  return run_format<ImportArguments>(import_formats, format, arguments);
}

}  // namespace

void add_import(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand(
      "import", "Convert files of other programs: traces, launch scripts, topologies, measurements");
  struct Options {
    std::string format;
    ImportArguments arguments;
  };
  const auto options = std::make_shared<Options>();
  verb->add_option("FORMAT", options->format, "Format of FILE, one of those below")->required();
  verb->add_option("FILE", options->arguments.files, "File to read; of components several")->required();
  verb->add_option("-o,--output", options->arguments.out, "File for the result; - is stdout; components: a folder")
      ->required();
  verb->add_option("--device", options->arguments.device,
                   "kineto: the GPU to take from a trace of several (default: the one with most kernels)");
  verb->add_option("--step", options->arguments.step,
                   "kineto: the step to take from a trace of several (default: the one of median length)");
  verb->add_option("--classes", options->arguments.classes,
                   "kineto: classes of kernels by name (default: the shipped kernels.toml)");
  verb->add_option("--model", options->arguments.model,
                   "megatron: a shipped model or a config.json (default: the one the script describes)");
  verb->add_option("--topology", options->arguments.topology, "megatron: the cluster (default: h100-dgx)");
  add_repeatable(*verb, "--define", options->arguments.definitions,
                 "megatron: NAME=VALUE of a variable that the script does not set (repeatable)");
  verb->add_option("--args", options->arguments.more_arguments, "megatron: arguments to add to those of the script");
  add_repeatable(*verb, "--set", options->arguments.overrides, "megatron: override a key of the plan (repeatable)");
  verb->add_option("--revision", options->arguments.revision,
                   "components: the commit of ai-dynamo/aiconfigurator that the tables are from");
  verb->footer(import_footer());
  verb->callback([options, &exit_code] { exit_code = exit_of(run_import(options->format, options->arguments)); });
}

}  // namespace plumbline::cli
