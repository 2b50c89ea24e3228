#include "model/configurations/primus.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/data.h"
#include "cli/import/import.h"
#include "model/base/text_file.h"
#include "model/megatron/model_shape.h"

namespace plumbline::cli {
namespace {

namespace configurations = model::configurations;

namespace megatron = model::megatron;

constexpr std::string_view kStack = "primus-2026";

// Returns the command that starts the training, on one node of eight GPUs unless the environment has others.
megatron::Script script_of(const std::vector<configurations::MegatronArgument>& arguments,
                           const megatron::Definitions& environment) {
  megatron::Script script;
  const auto value = [&](const std::string& name, const std::string& silent) {
    const auto found = environment.find(name);
    if (found == environment.end()) script.defaults.push_back({fmt::format("{}={}", name, silent), 1});
    return found == environment.end() || found->second.empty() ? silent : found->second;
  };
  const std::string nodes = value("NNODES", "1"), gpus = value("GPUS_PER_NODE", "8");
  megatron::Command& command = script.commands.emplace_back(megatron::Command{
      {"torchrun", 1}, {"--nnodes", 1}, {nodes, 1}, {"--nproc_per_node", 1}, {gpus, 1}, {"pretrain_gpt.py", 1}});
  for (const configurations::MegatronArgument& argument : arguments) {
    command.push_back({argument.name, argument.line});
    for (const std::string& word : argument.values) command.push_back({word, argument.line});
  }
  return script;
}

// Gives the vocabulary of the shipped model, which an experiment leaves to its tokenizer.
model::Result<void> give_vocabulary(const configurations::PrimusExperiment& experiment,
                                    configurations::PrimusArguments& given) {
  const auto states = [](const configurations::MegatronArgument& one) { return one.name == "--vocab-size"; };
  if (experiment.shipped.empty() || std::ranges::any_of(given.arguments, states)) return {};
  const auto path = TRY(resolve_model("", experiment.shipped));
  const auto text = TRY(model::read_text_file(path));
  const auto shape = TRY(model::megatron::shape_of(text, path, {}));
  const int line = given.arguments.empty() ? 1 : given.arguments.front().line;
  if (shape.vocabulary)
    given.arguments.insert(given.arguments.begin(), {"--vocab-size", {std::to_string(*shape.vocabulary)}, line});
  return {};
}

}  // namespace

model::Result<void> import_primus(const ImportArguments& given) {
  const auto text = TRY(model::read_text_file(given.file));
  const auto definitions = TRY(definitions_of(given));
  const auto experiment = TRY(configurations::read_primus(text, given.file, definitions));
  if (experiment.framework == "torchtitan") return import_configuration(given);
  ImportArguments arguments = given;
  auto stated = configurations::megatron_arguments(experiment);
  if (arguments.topology.empty()) arguments.topology = configurations::primus_topology(given.file);
  TRY(give_vocabulary(experiment, stated));
  if (arguments.model.empty() && !experiment.has_model) arguments.model = experiment.shipped;
  if (arguments.model.empty() && !experiment.has_model)
    return model::wrong_input_at(
        given.file, 0, "modules.pre_trainer.model",
        fmt::format("the preset '{}' is not among the files, and no shipped model has its name", experiment.model),
        "--model names a model");
  arguments.overrides.insert(arguments.overrides.begin(), stated.settings.begin(), stated.settings.end());
  const auto import = [&](const megatron::ImportOptions& options) {
    return megatron::import_script(script_of(stated.arguments, definitions), given.file, options);
  };
  MegatronScript script{import, std::string(kStack)};
  if (!experiment.defaults.empty())
    script.notes.push_back({0, fmt::format("the file's own values hold, --define changes them: {}",
                                           fmt::join(experiment.defaults, ", "))});
  if (!experiment.has_model)
    script.notes.push_back({0, fmt::format("the presets of Primus are not among the files: the model is {}, the rest "
                                           "as their newest version has it",
                                           arguments.model)});
  for (auto& [line, note] : stated.unread)
    script.notes.push_back({line, std::move(note), megatron::NoteKind::not_modeled});
  return import_megatron_script(arguments, script);
}

}  // namespace plumbline::cli
