#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/data.h"
#include "cli/import.h"
#include "cli/output.h"
#include "model/base/text_file.h"
#include "model/megatron/import.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
namespace megatron = model::megatron;

tl::unexpected<model::Error> refuse(std::string key, std::string message, std::string hint) {
  return tl::unexpected(
      model::Error{model::ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
}

// Where the model's config.json goes: beside the plan, under its name.
std::string config_beside(const std::string& plan) { return fs::path(plan).replace_extension(".json").string(); }

model::Result<void> name_model(const ImportArguments& arguments, megatron::ImportOptions& options) {
  if (arguments.model.empty()) {
    if (arguments.out == "-")
      return refuse("--output", "the model of the script needs a file beside the plan",
                    "name the plan's file, or a model with --model");
    options.config = fs::path(config_beside(arguments.out)).filename().string();
    return {};
  }
  const auto path = resolve_model("", arguments.model);
  if (!path) return tl::unexpected(path.error());
  const auto text = model::read_text_file(*path);
  if (!text) return tl::unexpected(text.error());
  const auto shape = megatron::shape_of(*text, *path, {});
  if (!shape) return tl::unexpected(shape.error());
  options.model = *shape;
  // A file is named by its whole path, since the plan may lie elsewhere; a shipped model by its name.
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
      return refuse("--define", fmt::format("'{}' is not NAME=VALUE", text), "for example --define NNODES=16");
    options.definitions[text.substr(0, equals)] = text.substr(equals + 1);
  }
  options.more_arguments = arguments.more_arguments;
  options.overrides = arguments.overrides;
  if (!arguments.topology.empty()) options.topology = arguments.topology;
  if (const auto named = name_model(arguments, options); !named) return tl::unexpected(named.error());
  return options;
}

}  // namespace

model::Result<void> import_megatron(const ImportArguments& arguments) {
  const auto text = model::read_text_file(arguments.file);
  if (!text) return tl::unexpected(text.error());
  const auto options = options_of(arguments);
  if (!options) return tl::unexpected(options.error());
  const auto imported = megatron::import_script(*text, arguments.file, *options);
  if (!imported) return tl::unexpected(imported.error());
  if (imported->config) {
    const std::string path = config_beside(arguments.out);
    if (auto written = write_output(path, imported->config->json); !written) return written;
    fmt::print(stderr, "{}: the model as a config.json of type {}\n", path, imported->config->model_type);
  }
  if (auto written = write_output(arguments.out, to_toml(imported->plan)); !written) return written;
  for (const megatron::Note& note : imported->notes) {
    const std::string place = note.line > 0 ? fmt::format("{}:{}", arguments.file, note.line) : arguments.file;
    fmt::print(stderr, "{}: {}\n", place, note.text);
  }
  return {};
}

}  // namespace plumbline::cli
