#include "cli/export.h"

#include <memory>
#include <string>

#include "cli/formats.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace plumbline::cli {
namespace {

// Every format that can be written.
constexpr Format<ExportArguments> formats[] = {
    {"simgrid", "the plan's cluster as a platform file of SimGrid (XML, DTD 4.1)", &export_simgrid_platform},
    {"megatron", "the plan as a launch script of Megatron-LM", &export_megatron},
};

std::string footer() {
  return format_list<ExportArguments>(formats) +
         "\nExamples:\n"
         "  plumbline export simgrid deepseek-v3-2048xh800 -o platform.xml\n"
         "  plumbline export megatron llama-3-8b-64xh800 -o launch.sh\n"
         "  plumbline export simgrid deepseek-v3-2048xh800 --set cluster.topology=h800-multi-rail -o platform.xml";
}

}  // namespace

CLI::App* add_export(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("export", "Write a plan, or what belongs to it, for other programs");
  struct Options {
    std::string format;
    ExportArguments arguments;
  };
  const auto options = std::make_shared<Options>();
  verb->add_option("FORMAT", options->format, "What to write: one of the formats below")->required();
  verb->add_option("PLAN", options->arguments.plan, "A plan file or the name of a shipped example")->required();
  verb->add_option("-o,--output", options->arguments.out, "Where the result goes (default: -, stdout)");
  verb->add_option("--set", options->arguments.overrides, "Override a key of the plan (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb->footer(footer());
  verb->callback([options, &exit_code] {
    const auto done = run_format<ExportArguments>(formats, options->format, options->arguments);
    exit_code = done ? 0 : report(done.error());
  });
  return verb;
}

}  // namespace plumbline::cli
