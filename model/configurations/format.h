// A format of another program's configurations: its keys with their meaning, and its rules.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/configurations/configuration.h"
#include "model/configurations/draft.h"
#include "model/megatron/arguments.h"

namespace plumbline::model::configurations {

// A key of a file and its meaning, as of Megatron's arguments. A name that ends in ".*" is of the key and all below.
using KeyRow = megatron::Argument;
using megatron::Meaning, megatron::table_of;

// A model that a file names or describes: a shipped one, else a config.json.
struct NamedModel {
  std::string shipped;  // empty: config_json
  std::string config_json;
  std::int64_t layers = 0;
};

struct ConfigurationImport {
  std::vector<std::string> overrides;  // of the plan, KEY=VALUE
  std::string function;                // of a Python file that holds several configurations
  std::string adjacent_config;         // name of the file for a model that is not shipped; empty: there is none
  // Returns the model of a model.config, wherever it lies.
  std::function<Result<Architecture>(const std::string& config)> load_model;
  std::vector<std::string> arguments = {};  // of the program, over the file: "--training.seq-len", "4096"
};

// A format's rules read the file through the draft and set the plan.
struct RuleInput {
  Draft& draft;
  const ConfigurationImport& options;
  std::optional<NamedModel>& model;  // of the file, where no option names another one

  void use_model(NamedModel named) const;
  // Returns the layers of the plan's model; nothing while there is none.
  std::optional<std::int64_t> layers() const;
  // Returns the plan's model; nothing while there is none, or where the file itself describes it.
  std::optional<Architecture> architecture() const;
  bool has_experts() const;
};

struct ConfigurationFormat {
  std::string_view name;     // of `plumbline import`
  std::string_view program;  // its name in prose
  Result<Configuration> (*read)(const Source& source);
  std::vector<Rename> renames;  // older and other names of sections
  std::vector<KeyRow> keys;
  void (*rules)(const RuleInput& in);
  const KeyRow* (*others)(std::string_view key) = nullptr;  // rows of another program, for keys that have none here

  // Returns the row of the longest name that a key has or lies under; nullptr where it is unknown.
  const KeyRow* row(std::string_view key) const;
};

// The formats, each in a source of its own.
ConfigurationFormat torchtitan();
ConfigurationFormat deepspeed();
ConfigurationFormat accelerate();
ConfigurationFormat nemo();
ConfigurationFormat llama_factory();
ConfigurationFormat axolotl();
ConfigurationFormat ms_swift();
ConfigurationFormat primus();  // on torchtitan; on Megatron-LM see primus.h
ConfigurationFormat automodel();
ConfigurationFormat verl();
ConfigurationFormat nanotron();
ConfigurationFormat nemo_rl();
ConfigurationFormat openrlhf();

}  // namespace plumbline::model::configurations
