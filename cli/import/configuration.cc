#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/data.h"
#include "cli/import/decisions.h"
#include "cli/import/gpu_kernels.h"
#include "cli/import/import.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/configurations/import.h"
#include "model/memory/memory.h"
#include "sim/interval/interval.h"
#include "sim/predict/predictor.h"

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

model::Result<model::Architecture> load_model(const std::string& config) {
  return resolve_model("", config).and_then(model::load_architecture);
}

void print_notes(const std::string& file, const configurations::ImportedConfiguration& imported) {
  for (const configurations::Note& note : imported.notes)
    fmt::print(stderr, "{}{}: {}\n", file, note.line > 0 ? fmt::format(":{}", note.line) : "", note.text);
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

}  // namespace

std::string named_model(const std::string& model) {
  return model::is_file(model) ? std::filesystem::absolute(model).string() : model;
}

model::Result<void> import_configuration(const ImportArguments& arguments) {
  TRY(refuse_own_input(arguments.out, arguments.file));
  const auto& formats = configurations::configuration_formats();
  const auto found = std::ranges::find(formats, arguments.format, &configurations::ConfigurationFormat::name);
  const auto text = TRY(model::read_text_file(arguments.file));
  const std::filesystem::path config = adjacent_config(arguments.out);
  const std::string adjacent = arguments.out == "-" ? "" : config.filename().string();
  configurations::ConfigurationImport options{overrides_of(arguments),
                                              arguments.function,
                                              adjacent,
                                              &load_model,
                                              {arguments.files.begin() + 1, arguments.files.end()}};
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

}  // namespace plumbline::cli
