#include "cli/show.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/data.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "topologies/topology.h"

namespace plumbline::cli {

namespace {

struct Arguments {
  std::string kind, name;
  std::int64_t sequence_length = 4096;
};

model::Result<std::string> show_model(const Arguments& arguments) {
  return resolve_model("", arguments.name).and_then(model::load_architecture).map([&](const auto& architecture) {
    return model_text(architecture, arguments.sequence_length);
  });
}

model::Result<std::string> show_topology(const Arguments& arguments) {
  const auto path = resolve_topology(arguments.name);
  if (!path) return tl::unexpected(path.error());
  const auto devices = resolve_device_folder(*path);
  if (!devices) return tl::unexpected(devices.error());
  return topologies::load_cluster(*path, *devices, {}).map(topology_text);
}

model::Result<std::string> show_profile(const Arguments& arguments) {
  return resolve_profile(arguments.name).and_then(model::load_profile).map(profile_text);
}

model::Result<std::string> show(const Arguments& arguments) {
  if (arguments.kind == "model") return show_model(arguments);
  if (arguments.kind == "topology") return show_topology(arguments);
  if (arguments.kind == "profile") return show_profile(arguments);
  const std::string nearest = model::nearest_name(arguments.kind, {"model", "topology", "profile"});
  return tl::unexpected(model::Error{model::ErrorKind::input, fmt::format("cannot show '{}'", arguments.kind), "", 0,
                                     "",
                                     fmt::format("{}known: model, topology, profile",
                                                 nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest))});
}

int run(const Arguments& arguments) {
  const auto text = show(arguments);
  if (!text) return report(text.error());
  fmt::print("{}", *text);
  return 0;
}

}  // namespace

CLI::App* add_show(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("show", "Print what a model, a cluster or a cost profile is made of");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("KIND", arguments->kind, "model | topology | profile")->required();
  verb->add_option("NAME", arguments->name, "A shipped name or a file")->required();
  verb->add_option("--sequence-length", arguments->sequence_length,
                   "Tokens of a sequence, for a model's FLOPs per token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->footer(
      "Examples:\n"
      "  plumbline show model deepseek-v3 --sequence-length 8192\n"
      "  plumbline show topology h800-rail-fat-tree\n"
      "  plumbline show profile h800");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
