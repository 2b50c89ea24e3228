#include "cli/import.h"

#include <memory>
#include <string>

#include "cli/formats.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace plumbline::cli {
namespace {

// Every format that can be imported.
constexpr Format<ImportArguments> formats[] = {
    {"kineto", "a trace of the PyTorch profiler, .json or .json.gz, to a chunk measurement (.csv)",
     &import_kineto_trace},
    {"nccl-topology", "a topology dump of NCCL or RCCL (NCCL_TOPO_DUMP_FILE), .xml, to a topology file (.toml)",
     &import_nccl_topology},
    {"megatron", "a launch script of Megatron-LM, .sh, to a plan (.toml) with the model's config.json beside it",
     &import_megatron},
    {"nccl-tests", "the text output of NVIDIA's nccl-tests to measurements (.csv or .jsonl)", &import_nccl_tests},
};

std::string footer() {
  return format_list<ImportArguments>(formats) +
         "\nKernels that no class of the class file matches are listed on stderr; docs/measuring.md says how\n"
         "to record a trace and how to add a class.\n\n"
         "Examples:\n"
         "  plumbline import kineto trace.json.gz -o chunk.csv\n"
         "  plumbline import megatron launch.sh --topology h100-dgx --define NNODES=16 -o plan.toml\n"
         "  plumbline import megatron launch.sh --model deepseek-v3 --args \"--vocab-size 129280\" -o plan.toml\n"
         "  plumbline import nccl-tests all_reduce.txt -o measurements.csv\n"
         "  plumbline import kineto trace.json --device 1 --classes my-kernels.toml -o chunk.csv\n"
         "  plumbline import nccl-topology node.xml -o my-cluster.toml";
}

}  // namespace

CLI::App* add_import(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("import", "Read what other programs measured");
  struct Options {
    std::string format;
    ImportArguments arguments;
  };
  const auto options = std::make_shared<Options>();
  verb->add_option("FORMAT", options->format, "What FILE is: one of the formats below")->required();
  verb->add_option("FILE", options->arguments.file, "What to read")->required();
  verb->add_option("-o,--output", options->arguments.out, "Where the result goes; - is stdout")->required();
  verb->add_option("--device", options->arguments.device,
                   "kineto: the GPU to take from a trace of several (default: the one with most kernels)");
  verb->add_option("--classes", options->arguments.classes,
                   "kineto: classes of kernels by name (default: the shipped kernels.toml)");
  verb->add_option("--model", options->arguments.model,
                   "megatron: a shipped model or a config.json (default: the one the script describes)");
  verb->add_option("--topology", options->arguments.topology, "megatron: the cluster (default: h100-dgx)");
  verb->add_option("--define", options->arguments.definitions,
                   "megatron: NAME=VALUE of a variable that the script takes from outside (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--args", options->arguments.more_arguments, "megatron: arguments to add to those of the script");
  verb->add_option("--set", options->arguments.overrides, "megatron: override a key of the plan (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb->footer(footer());
  verb->callback([options, &exit_code] {
    const auto done = run_format<ImportArguments>(formats, options->format, options->arguments);
    exit_code = done ? 0 : report(done.error());
  });
  return verb;
}

}  // namespace plumbline::cli
