#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/data.h"
#include "cli/formats.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text_file.h"
#include "model/configurations/import.h"
#include "model/megatron/import.h"
#include "model/megatron/model_shape.h"
#include "model/plan/layout.h"
#include "topologies/formats.h"

namespace plumbline::cli {
namespace {

namespace configurations = model::configurations;

struct ExportArguments {
  std::string plan;
  std::vector<std::string> overrides;  // of the plan
  std::string out = "-";
};

model::Result<void> export_simgrid_platform(const ExportArguments& arguments) {
  const auto plan = TRY(find_plan(arguments.plan, arguments.overrides));
  const auto topology = TRY(find_topology(plan.cluster.topology, topologies::variation_of(plan), plan.file));
  const auto fabric = TRY(topologies::Fabric::make(topology.fabric, topology.cluster.gpus));
  return write_output(arguments.out, topologies::simgrid_platform(topology, fabric));
}

// Returns the plan with the layers of its stages. Errors: those of a plan that cannot run, besides with_stage_layers().
model::Result<model::Plan> whole_plan(const model::Plan& plan, const model::Architecture& architecture) {
  auto whole = TRY(with_stage_layers(plan));
  TRY(model::make_layout(whole, architecture));
  return whole;
}

// Prints to stderr the keys of the plan that no argument of Megatron-LM expresses.
model::Result<void> export_megatron(const ExportArguments& arguments) {
  const auto plan = TRY(find_plan(arguments.plan, arguments.overrides));
  const auto config_path = TRY(resolve_model(plan.file, plan.model.config));
  const auto config = TRY(model::read_text_file(config_path));
  const auto shape = TRY(model::megatron::shape_of(config, config_path, plan.model.overrides));
  const auto architecture = TRY(model::load_architecture_of(plan, config_path));
  const auto whole = TRY(whole_plan(plan, architecture));
  const auto exported = TRY(model::megatron::export_script(whole, shape));
  TRY(write_output(arguments.out, exported.script));
  for (const std::string& note : exported.notes) fmt::print(stderr, "{}\n", note);
  return {};
}

// Prints to stderr the keys of the plan that the format does not express.
template <model::Result<configurations::ExportedConfiguration> (*write)(const configurations::ExportInput&)>
model::Result<void> export_configuration(const ExportArguments& arguments) {
  const auto plan = TRY(find_plan(arguments.plan, arguments.overrides));
  const auto path = TRY(resolve_model(plan.file, plan.model.config));
  const auto architecture = TRY(model::load_architecture_of(plan, path));
  const auto topology = TRY(find_topology(plan.cluster.topology, topologies::variation_of(plan), plan.file));
  const auto whole = TRY(whole_plan(plan, architecture));
  const auto exported = TRY(write({whole, architecture, topology.fabric.gpus_per_host()}));
  TRY(write_output(arguments.out, exported.text));
  for (const std::string& line : exported.launch) fmt::print(stderr, "{}\n", line);
  for (const std::string& note : exported.notes) fmt::print(stderr, "{}\n", note);
  return {};
}

// Every format that can be written.
constexpr Format<ExportArguments> export_formats[] = {
    {"simgrid", "the plan's cluster as a platform file of SimGrid (XML, DTD 4.1)", &export_simgrid_platform},
    {"megatron", "the plan as a launch script of Megatron-LM", &export_megatron},
    {"torchtitan", "the plan as a configuration of torchtitan (Python; train.toml of stack torchtitan-compile)",
     &export_configuration<&configurations::export_torchtitan>},
    {"deepspeed", "the plan as a ds_config.json of DeepSpeed",
     &export_configuration<&configurations::export_deepspeed>},
};

std::string export_footer() {
  return format_list<ExportArguments>(export_formats) +
         "\nExamples:\n"
         "  plumbline export simgrid deepseek-v3-2048xh800 -o platform.xml\n"
         "  plumbline export megatron llama-3-8b-64xh800 -o launch.sh\n"
         "  plumbline export torchtitan llama-3-8b-fsdp-64xh100 -o train.toml\n"
         "  plumbline export simgrid deepseek-v3-2048xh800 --set cluster.topology=h800-multi-rail -o platform.xml";
}

}  // namespace

void add_export(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("export", "Write a plan or its cluster in the format of another program");
  struct Options {
    std::string format;
    ExportArguments arguments;
  };
  const auto options = std::make_shared<Options>();
  verb->add_option("FORMAT", options->format, "Format of the result, one of those below")->required();
  verb->add_option("PLAN", options->arguments.plan, "A plan file or the name of a shipped example")->required();
  verb->add_option("-o,--output", options->arguments.out, "File for the result (default: -, stdout)");
  add_repeatable(*verb, "--set", options->arguments.overrides, "Override a key of the plan (repeatable)");
  verb->footer(export_footer());
  verb->callback([options, &exit_code] {
    exit_code = exit_of(run_format<ExportArguments>(export_formats, options->format, options->arguments));
  });
}

}  // namespace plumbline::cli
