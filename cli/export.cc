#include "cli/export.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string_view>

#include "cli/output.h"
#include "cli/verb.h"

namespace plumbline::cli {
namespace {

struct Format {
  std::string_view name;
  std::string_view what;  // for the help
  model::Result<void> (*run)(const ExportArguments&);
};

// Every format that can be written.
constexpr std::array formats = {
    Format{"simgrid", "the plan's cluster as a platform file of SimGrid (XML, DTD 4.1)", &export_simgrid_platform},
};

model::Result<void> run(const std::string& name, const ExportArguments& arguments) {
  std::vector<std::string> known;
  for (const Format& format : formats) {
    if (format.name == name) return format.run(arguments);
    known.emplace_back(format.name);
  }
  const std::string nearest = model::nearest_name(name, known);
  return tl::unexpected(
      model::Error{model::ErrorKind::input, fmt::format("unknown format '{}'", name), "", 0, "FORMAT",
                   fmt::format("{}known: {}", nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                               fmt::join(known, ", "))});
}

std::string footer() {
  std::string text = "Formats:\n";
  for (const Format& format : formats) text += fmt::format("  {:<8}  {}\n", format.name, format.what);
  return text +
         "\nExamples:\n"
         "  plumbline export simgrid deepseek-v3-2048xh800 -o platform.xml\n"
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
  verb->add_option("FORMAT", options->format, "What to write: simgrid")->required();
  verb->add_option("PLAN", options->arguments.plan, "A plan file or the name of a shipped example")->required();
  verb->add_option("-o,--output", options->arguments.out, "Where the result goes; - is stdout")->required();
  verb->add_option("--set", options->arguments.overrides, "Override a key of the plan (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb->footer(footer());
  verb->callback([options, &exit_code] {
    const auto done = run(options->format, options->arguments);
    exit_code = done ? 0 : report(done.error());
  });
  return verb;
}

}  // namespace plumbline::cli
