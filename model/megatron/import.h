// Reads a launch script of Megatron-LM into a plan and a model.
//
// Writes a plan and its model as a launch script of Megatron-LM.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/arguments.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/shell/shell.h"
#include "model/plan/alternative.h"
#include "model/plan/plan.h"

namespace plumbline::model::megatron {

inline constexpr std::string_view default_topology = "h100-dgx";

// A shipped model. `further`: the name goes on behind its name, as that of a further training does.
struct NamedShape {
  std::string config;
  ModelShape shape;
  bool further = false;
};

struct ImportOptions {
  Definitions definitions;              // variables that are set outside of the script; 1, 2 ...: its parameters
  std::string more_arguments;           // added after the script's arguments
  std::string config;                   // the plan's model.config
  std::optional<ModelShape> model;      // that model, if it exists already; else it is read from the script
  std::optional<std::string> topology;  // default: that of the script's comment, else default_topology
  std::vector<std::string> overrides;   // plan keys, KEY=VALUE
  // Returns a shipped model of a name of Hugging Face, with its own; nothing where there is none, and without it.
  std::function<std::optional<NamedShape>(const std::string& name)> find_model = {};
  std::string folder;                                           // that holds the script, for $(dirname "$0")
  std::function<FoundFile(const std::string& path)> find_file;  // what it may source; none: nothing
};

struct ImportedScript {
  Plan plan;
  ModelShape shape;
  std::optional<WrittenConfig> config;        // none where the model exists already
  std::vector<Note> notes;                    // what was assumed, left out or not understood, by line
  std::vector<PlanAlternative> alternatives;  // without each argument that changes the plan, with some that are missing
  std::vector<std::string> files;             // of the lines: the script, and those that it sources
};

// What a launch script did when it was executed.
struct Execution {
  std::vector<Command> started;       // programs, with the words of their launchers before them
  std::vector<std::string> skipped;   // names of other programs in whose place nothing was done
  std::vector<std::string> answered;  // names of those that were answered for
  Definitions variables;              // WORLD_SIZE and Slurm's, as the programs saw them
  std::string ending;                 // how it ended, where that was no success
};

// Reads the first training that an executed script started. `text` is the script's, for its comments. Errors are those
// of import_script(), without lines.
Result<ImportedScript> import_execution(const Execution& execution, std::string_view text, const std::string& path,
                                        const ImportOptions& options);

// Reads the script without running it. A comment "# plumbline: KEY = VALUE" sets a key of the plan that no argument
// sets. Errors name `path` and the line: those of read_script(), no command with Megatron's arguments, a word that is
// not known where it decides the plan, a value that is no number, a missing dimension, batch or number of GPUs, stages
// that Megatron refuses, and errors of the plan's own rules.
Result<ImportedScript> import_script(std::string_view text, const std::string& path, const ImportOptions& options);

// Reads the commands and defaults that another file has in place of a script. Variables are the definitions; errors are
// those of a script's arguments.
Result<ImportedScript> import_script(Script script, const std::string& path, const ImportOptions& options);

struct ExportedScript {
  std::string script;
  std::vector<std::string> notes;  // keys that no argument sets
};

// Keys that no argument sets are written as "# plumbline: KEY = VALUE", so that import_script returns the same plan
// (except model.config and stated phases). They are found by reading the written arguments back.
Result<ExportedScript> export_script(const Plan& plan, const ModelShape& shape);

}  // namespace plumbline::model::megatron
