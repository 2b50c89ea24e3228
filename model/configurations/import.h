// Reads configurations of other programs into plans: torchtitan, DeepSpeed, accelerate, NeMo, engines that serve,
// Hugging Face models.
//
// A format of another program's configurations: its keys with their meaning, and its rules.
//
// Writes a plan as a configuration of another program.
//
// Experiments of Primus, AMD's software for training on Instinct GPUs: YAML that names presets of a module and of a
// model, and overrides them (AMD-AGI/Primus primus/core/launcher/parser.py @0158a866). What they set are arguments of
// Megatron-LM or keys of torchtitan.
//
// A plan in the making: values that the keys of another program's file give, each with its origin, and what was
// assumed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/base/integers.h"
#include "model/base/text.h"
#include "model/configurations/configuration.h"
#include "model/megatron/arguments.h"
#include "model/megatron/shell/shell.h"
#include "model/plan/alternative.h"
#include "model/plan/plan.h"

namespace plumbline::model::configurations {

struct Note {
  enum class Kind { assumed, not_modeled, unknown };
  Kind kind = Kind::assumed;
  int line = 0;  // of the file; 0: none
  std::string text;
};

inline std::string toml_of(std::int64_t value) { return std::to_string(value); }
inline std::string toml_of(bool value) { return value ? "true" : "false"; }
inline std::string toml_of(double value) { return fmt::format("{}", value); }
inline std::string toml_of(std::string_view value) { return toml_string(value); }
inline std::string toml_of(const char* value) { return toml_string(value); }
template <class T>
std::string toml_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + toml_of(value);
  return "[" + text + "]";
}

// Values that the user sets (`overrides`, KEY=VALUE) win over those of the file, and what follows from a value follows
// from the user's. The first error about a key is kept, so that a format reads all its keys and checks once.
class Draft {
 public:
  Draft(const Configuration& configuration, std::string_view program, const std::vector<std::string>& overrides);

  // Return the value of a key of the file; nothing where it is missing, null or "auto".
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key);  // also written 5e8
  std::optional<double> number(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::vector<std::string> list(std::string_view key) const;  // a text is split at commas

  // Sets a key of the plan from a key of the file, or as a rule of its own ("" or a sentence in `origin`).
  template <class T>
  void set(std::string_view plan_key, const T& value, std::string_view origin) {
    put(plan_key, toml_of(value), origin);
  }
  // Does the same with a value as TOML.
  void put(std::string_view plan_key, std::string value, std::string_view origin);
  // Sets a key of the plan that no key of the file decides, and notes it with the reason. `other` is the value that it
  // may well have instead; empty: none.
  template <class T>
  void assume(std::string_view plan_key, const T& value, std::string_view reason, std::string_view other = {}) {
    if (given(plan_key)) return;
    if (!other.empty()) open_choices_.push_back(fmt::format("{}={}", plan_key, other));
    put(plan_key, toml_of(value), "assumed");
    note(Note::Kind::assumed, "", fmt::format("assumed: {} = {}: {}", plan_key, toml_of(value), reason));
  }

  bool given(std::string_view plan_key) const { return settings_.contains(plan_key); }
  // Return a value of the plan as it is set so far.
  std::optional<std::string> word(std::string_view plan_key) const;
  std::optional<std::int64_t> value(std::string_view plan_key) const;
  // Returns a degree, at least 1: the plan is refused with one that is not.
  std::int64_t degree(std::string_view leaf) const { return count(fmt::format("parallelism.{}", leaf)); }
  // Return the GPUs of one copy of the layers, and the stages of the pipeline.
  std::int64_t model_parallel() const {
    return bounded_product({degree("tensor"), degree("context"), degree("pipeline")});
  }
  std::int64_t stages() const { return bounded_product({degree("pipeline"), count("schedule.virtual_stages")}); }
  // Returns the data-parallel degree; nothing where the GPUs are not stated or do not divide.
  std::optional<std::int64_t> data_parallel() const;

  void note(Note::Kind kind, std::string_view key, std::string text);
  // Notes an entry whose key is unknown; `text` follows the key.
  void note_unknown(const Entry& entry, const std::string& text);
  void not_modeled(std::string_view key, std::string_view what);
  // Notes in one line the values that are the program's defaults, because the file lacks their key.
  void note_defaults();
  // Keeps an error about a key of the file.
  void fail(std::string_view key, std::string message, std::string hint = "");
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }

  const Configuration& configuration() const { return configuration_; }
  const std::optional<Error>& error() const { return error_; }
  std::vector<Note>& notes() { return notes_; }
  // Returns the other values of what was assumed, as KEY=VALUE.
  const std::vector<std::string>& open_choices() const { return open_choices_; }
  std::string_view program() const { return program_; }

  // Returns the plan. Required keys that nothing gives are one error that names them all; values that no plan may have
  // are errors at their line of the file.
  Result<Plan> plan() const;
  // Returns the plan as TOML with the keys that were given, each with its origin.
  std::string toml(const Plan& plan) const;

 private:
  std::int64_t count(std::string_view plan_key) const { return std::max<std::int64_t>(1, value(plan_key).value_or(1)); }

  struct Setting {
    std::string value, origin;
    int line = 0;
    bool of_user = false;
  };

  const Configuration& configuration_;
  std::string_view program_;
  const std::vector<std::string>& overrides_;
  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<Note> notes_;
  std::vector<std::string> open_choices_;
  std::optional<Error> error_;
};

// A key of a file and its meaning, as of Megatron's arguments. A name that ends in ".*" is of the key and all below.
using KeyRow = megatron::Argument;
using megatron::Meaning, megatron::table_of;

// A model that a file names or describes: a shipped one, else a config.json.
struct NamedModel {
  std::string shipped;  // empty: config_json
  std::string config_json;
  std::int64_t layers = 0;
};

// Returns the shipped model of a name on Hugging Face or ModelScope, or that of a folder, as `load_model` finds it by
// its name; nothing where there is none. `further`: the name goes on, as that of a further training does.
struct FoundModel {
  NamedModel model;
  bool further = false;
};
std::optional<FoundModel> find_named_model(
    const std::string& stated, const std::function<Result<Architecture>(const std::string& config)>& load_model);

struct ConfigurationImport {
  std::vector<std::string> overrides;  // of the plan, KEY=VALUE
  std::string function;                // of a Python file that holds several configurations
  std::string adjacent_config;         // name of the file for a model that is not shipped; empty: there is none
  // Returns the model of a model.config, wherever it lies.
  std::function<Result<Architecture>(const std::string& config)> load_model;
  std::vector<std::string> arguments = {};  // of the program, over the file: "--training.seq-len", "4096"
  std::map<std::string, std::string, std::less<>> definitions = {};  // variables of a script that come from outside
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
ConfigurationFormat vllm();
ConfigurationFormat sglang();
ConfigurationFormat tensorrt_llm();

struct ImportedConfiguration {
  Plan plan;
  std::string toml;  // the plan with the origin of each value
  std::optional<std::string> config_json;
  std::vector<Note> notes;
  std::int64_t no_cost = 0;                   // keys of the file that change no cost
  std::vector<PlanAlternative> alternatives;  // without each key that changes the plan, with some that were assumed
};

const std::vector<ConfigurationFormat>& configuration_formats();

// Returns the plan of a file. Errors name the file, the line and the key: syntax, values that are none, contradictions
// between keys, and together all that the file lacks and no option gives.
Result<ImportedConfiguration> import_configuration(const ConfigurationFormat& format, std::string_view text,
                                                   const std::string& path, const ConfigurationImport& options);

// Returns a first plan for a model whose training no file describes: fully sharded, at first without and then with
// recomputation and with tensor parallelism, the first that fits. Every choice is noted. `model` names the model in the
// plan, `path` its file in errors.
Result<ImportedConfiguration> starting_plan(const std::string& model, const std::string& path,
                                            const Architecture& architecture, const std::vector<std::string>& overrides,
                                            const std::function<Result<bool>(const Plan& plan)>& fits);

struct ExportInput {
  const Plan& plan;
  const Architecture& architecture;
  std::int64_t gpus_per_node = 0;  // of the cluster
};

struct ExportedConfiguration {
  std::string text;
  std::vector<std::string> notes;   // keys of the plan that the format does not express
  std::vector<std::string> launch;  // how it is started, where the text does not have it
};

// Return a function of torchtitan's registry, or for the stack torchtitan-compile a train.toml, with the command that
// starts it as a comment, and a ds_config.json, which has no comments. Keys that reading the file back does not give
// are notes; torchtitan's file has them as "# plumbline: KEY = VALUE", from which the import restores them. Infeasible
// where torchtitan has no flavor of the model.
Result<ExportedConfiguration> export_torchtitan(const ExportInput& input);
Result<ExportedConfiguration> export_deepspeed(const ExportInput& input);

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
