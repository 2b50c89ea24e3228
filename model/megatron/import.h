// Reads a launch script of Megatron-LM into a plan and a model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/config.h"
#include "model/megatron/given.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/shell.h"
#include "model/plan/plan.h"

namespace plumbline::model::megatron {

struct ImportOptions {
  Definitions definitions;              // variables that are set outside of the script
  std::string more_arguments;           // added after the script's arguments
  std::string config;                   // the plan's model.config
  std::optional<ModelShape> model;      // that model, if it exists already; else it is read from the script
  std::optional<std::string> topology;  // default: that of the script's comment, else h100-dgx
  std::vector<std::string> overrides;   // plan keys, KEY=VALUE
};

struct ImportedScript {
  Plan plan;
  ModelShape shape;
  std::optional<WrittenConfig> config;  // none when options.model was given
  std::vector<Note> notes;              // what was assumed, left out or not understood, by line
};

// Reads the script without running it. A comment "# plumbline: KEY = VALUE" sets a key of the plan that no argument
// sets. Errors name `path` and the line: no command with Megatron's arguments, a value that is no number, a missing
// dimension, batch or number of GPUs, and errors of the plan's own rules.
Result<ImportedScript> import_script(std::string_view text, const std::string& path, const ImportOptions& options);

}  // namespace plumbline::model::megatron
