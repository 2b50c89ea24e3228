#include "cli/show.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/shapes.h"
#include "cli/show_collectives.h"
#include "cli/show_measurements.h"
#include "cli/show_topology.h"
#include "cli/verb.h"

namespace plumbline::cli {

namespace {

struct Arguments {
  std::string kind, name, svg, partition;
  std::vector<std::string> overrides;
  bool shapes = false;
  std::int64_t sequence_length = 4096;
  std::int64_t gpus = 0;
  CollectivesArguments collectives;
};

model::Result<std::string> show_model(const Arguments& arguments) {
  if (arguments.shapes) return show_shapes(arguments.name, arguments.sequence_length, arguments.overrides);
  return resolve_model("", arguments.name).and_then(model::load_architecture).map([&](const auto& architecture) {
    return model_text(architecture, arguments.sequence_length);
  });
}

model::Result<std::string> show_profile(const Arguments& arguments) {
  return find_profile(arguments.name).map(profile_text);
}

model::Result<std::string> show(const Arguments& arguments) {
  if (arguments.kind == "model") return show_model(arguments);
  if (arguments.collectives.wanted) return show_collectives(arguments.name, arguments.gpus, arguments.collectives);
  if (arguments.kind == "topology") return show_topology(arguments.name, arguments.gpus, arguments.svg);
  if (arguments.kind == "profile") return show_profile(arguments);
  const std::string nearest = model::nearest_name(arguments.kind, {"model", "topology", "profile", "measurements"});
  return tl::unexpected(model::Error{model::ErrorKind::input, fmt::format("cannot show '{}'", arguments.kind), "", 0,
                                     "",
                                     fmt::format("{}known: model, topology, profile, measurements",
                                                 nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest))});
}

// An option that another kind has no use for is a mistake, not a wish.
model::Result<void> check(const Arguments& arguments) {
  const auto only_for = [](const char* option, const char* kind) {
    return tl::unexpected(
        model::Error{model::ErrorKind::input, fmt::format("only '{}' takes it", kind), "", 0, option, ""});
  };
  const bool drawn = arguments.kind == "measurements" || arguments.kind == "topology";
  if (!arguments.svg.empty() && !drawn) return only_for("--svg", "show measurements' and 'show topology");
  if (!arguments.partition.empty() && arguments.kind != "measurements")
    return only_for("--partition", "show measurements");
  if (arguments.gpus > 0 && arguments.kind != "topology") return only_for("--gpus", "show topology");
  if (const char* option = arguments.collectives.misplaced(arguments.kind))
    return only_for(option, "show topology --collectives");
  if (arguments.shapes && arguments.kind != "model") return only_for("--shapes", "show model");
  if (!arguments.overrides.empty() && !arguments.shapes) return only_for("--set", "show model --shapes");
  return {};
}

int run(const Arguments& arguments) {
  if (const auto valid = check(arguments); !valid) return report(valid.error());
  if (arguments.kind == "measurements") {
    const auto shown = show_measurements(arguments.name, arguments.svg, arguments.partition);
    return shown ? 0 : report(shown.error());
  }
  const auto text = show(arguments);
  if (!text) return report(text.error());
  fmt::print("{}", *text);
  return 0;
}

}  // namespace

CLI::App* add_show(CLI::App& root, int& exit_code) {
  CLI::App* verb =
      root.add_subcommand("show", "Print what a model, a cluster, a cost profile or a file of measurements is made of");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("KIND", arguments->kind, "model | topology | profile | measurements")->required();
  verb->add_option("NAME", arguments->name, "A shipped name or a file")->required();
  verb->add_option("--sequence-length", arguments->sequence_length,
                   "Tokens of a sequence, for a model's FLOPs per token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_flag("--shapes", arguments->shapes,
                 "Of a model or plan: the shapes of its kernels on one rank, as cases for plumbline measure");
  verb->add_option("--set", arguments->overrides, "With --shapes: override a key of the plan (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--svg", arguments->svg,
                   "Of measurements a roofline, of a topology a drawing: write it to a file, or - for stdout");
  verb->add_option("--partition", arguments->partition,
                   "Of measurements: draw what it costs to leave SMs to a copy, to a file, or - for stdout");
  verb->add_option("--gpus", arguments->gpus, "Of a topology: GPUs to draw (default: 2048, or all that it connects)")
      ->check(CLI::PositiveNumber);
  add_collectives_options(*verb, arguments->collectives);
  verb->footer(
      "Examples:\n"
      "  plumbline show model deepseek-v3 --sequence-length 8192\n"
      "  plumbline show model deepseek-v3 --shapes --set precision.gemm=fp8 > deepseek.cases\n"
      "  plumbline show measurements h200.jsonl --svg roofline.svg --partition partition.svg\n"
      "  plumbline show topology h800-rail-fat-tree --gpus 16384 --svg fabric.svg\n"
      "  plumbline show topology h100-dgx --gpus 16 --collectives --collective all_gather\n"
      "  plumbline show profile h800");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
