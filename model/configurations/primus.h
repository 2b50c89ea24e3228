// Experiments of Primus, AMD's software for training on Instinct GPUs: YAML that names presets of a module and of a
// model, and overrides them (AMD-AGI/Primus primus/core/launcher/parser.py @0158a866). What they set are arguments of
// Megatron-LM or keys of torchtitan.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/configurations/configuration.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::configurations {

struct PrimusExperiment {
  std::string framework;   // megatron or torchtitan
  std::string model;       // the name of the model's preset: "llama3.1_8B"
  std::string shipped;     // the shipped model of that name; empty: none has it
  bool has_model = false;  // whether the model's preset is among the files
  // What the training has, each key once, on a line of the experiment; null: Megatron's own.
  std::vector<Entry> entries;
  std::size_t overrides = 0;          // how many of them, at the end, are of the experiment itself
  std::vector<std::string> defaults;  // NAME=VALUE of variables that have the file's own values
};

// An argument of Megatron that a file gives, on its line.
struct MegatronArgument {
  std::string name;
  std::vector<std::string> values;  // empty for a flag
  int line = 0;
};

// What an experiment gives Megatron: arguments in the order of their lines, and what is left out, by line.
struct PrimusArguments {
  std::vector<MegatronArgument> arguments;
  std::vector<std::string> settings;                // keys of the plan that no argument sets, KEY=VALUE
  std::vector<std::pair<int, std::string>> unread;  // what can change the cost, and why it does not
};

// Reads the experiment with the presets that lie next to it or in the tree of Primus around it; of others hold the
// defaults that every preset of a module has, and nothing of the model. ${NAME} and ${NAME:default} are values of the
// environment. Errors name the file and the line: syntax, a file without a pre_trainer, a framework that is not read,
// and variables without a value.
Result<PrimusExperiment> read_primus(std::string_view text, const std::string& path,
                                     const megatron::Definitions& environment);

PrimusArguments megatron_arguments(const PrimusExperiment& experiment);

// Returns the shipped topology of the GPUs that an experiment is configured for: those that a folder of its path is
// named after, else MI300X.
std::string primus_topology(const std::string& path);

}  // namespace plumbline::model::configurations
