#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "cli/data.h"
#include "cli/import/import.h"
#include "cli/outputs.h"
#include "model/base/text_file.h"
#include "model/megatron/import.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
namespace megatron = model::megatron;

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

// Finds what a script sources or asks for: any file by a path relative to the script's folder, and what lies in that
// folder; of others nothing is known.
megatron::FoundFile find_near(const fs::path& folder, const std::string& path) {
  using megatron::FileKind;
  std::error_code failed;
  const fs::path whole = (folder / path).lexically_normal();
  const auto [end, ignored] = std::ranges::mismatch(folder, whole);
  const bool inside = end == folder.end();
  if (!inside && fs::path(path).is_absolute()) return {};
  if (fs::is_directory(whole, failed)) return {FileKind::folder, ""};
  if (!fs::is_regular_file(whole, failed)) return {inside ? FileKind::none : FileKind::unknown, ""};
  const auto text = model::read_text_file(whole.string());
  return text ? megatron::FoundFile{FileKind::file, *text} : megatron::FoundFile();
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
  if (arguments.gpus) options.overrides.push_back(fmt::format("cluster.gpus={}", *arguments.gpus));
  if (!arguments.topology.empty()) options.topology = arguments.topology;
  std::error_code failed;
  const fs::path folder = fs::absolute(arguments.file, failed).lexically_normal().parent_path();
  options.folder = folder.string();
  options.find_file = [folder](const std::string& path) { return find_near(folder, path); };
  TRY(name_model(arguments, options));
  return options;
}

}  // namespace

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
    fmt::print(stderr, "{}: {}\n", megatron::place_of(imported.files, note.line), note.text);
  }
  return {};
}

}  // namespace plumbline::cli
