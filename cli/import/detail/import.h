// The arguments of `plumbline import` and its formats. Each reads arguments.file, writes arguments.out and prints to
// stderr what was assumed or left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/megatron/import.h"
#include "model/plan/alternative.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"

namespace plumbline::cli {

struct ImportArguments {
  std::string format;
  std::vector<std::string> files;  // several of component tables; of --execute and torchtitan also arguments; else one
  std::string file, out;           // file: the first
  std::string classes;             // of kernels; empty: the shipped ones
  std::optional<int> device;       // of a trace with several
  std::optional<std::int64_t> step;  // of a trace with several
  std::string revision;              // of component tables
  // Options of a launch script:
  std::string model;                     // shipped or a path; empty: the script's own
  std::string topology;                  // empty: h100-dgx
  std::vector<std::string> definitions;  // NAME=VALUE of variables that the script does not set
  std::string more_arguments;            // appended to the script's arguments
  bool execute = false;                  // the script is run by bash, not read
  double deadline_s = 30;                // of --execute
  std::vector<std::string> overrides;    // of the plan
  bool verbose = false;                  // lists what hardly changes the step, or not at all
  std::string function;                  // of a Python file of several configurations
  std::optional<std::int64_t> gpus;      // of a configuration that does not state them
};

// Returns the model of --model as the plan names it: a file by its whole path, since the plan may be in another folder.
std::string named_model(const std::string& model);

// Loads a model: a shipped one, or a file.
model::Result<model::Architecture> load_model(const std::string& config);

model::Result<void> import_kineto_trace(const ImportArguments& arguments);
model::Result<void> import_megatron(const ImportArguments& arguments);
model::Result<void> import_primus(const ImportArguments& arguments);
model::Result<void> import_configuration(const ImportArguments& arguments);  // of the format's name
model::Result<void> import_hf(const ImportArguments& arguments);
model::Result<void> import_nccl_tests(const ImportArguments& arguments);
model::Result<void> import_nccl_topology(const ImportArguments& arguments);
model::Result<void> import_components(const ImportArguments& arguments);

// A launch script of Megatron-LM, or what another file has in its place.
struct MegatronScript {
  std::function<model::Result<model::megatron::ImportedScript>(const model::megatron::ImportOptions&)> import;
  std::string stack = "megatron-core-2025";  // of a plan that names none
  std::vector<model::megatron::Note> notes = {};
};
model::Result<void> import_megatron_script(const ImportArguments& arguments, const MegatronScript& script);

// Returns what --define gives; an error where it is not NAME=VALUE.
model::Result<model::megatron::Definitions> definitions_of(const ImportArguments& arguments);

// Refuses an output that is a file that is read.
model::Result<void> refuse_own_input(const std::string& out, const std::string& file);

// Whether the plan is a file, which others can be next to: no stdout, no device.
bool is_beside_files(const std::string& plan);

// Returns the path of the model's config.json: next to the plan, under its name.
std::string adjacent_config(const std::string& plan);

// Writes the model there, but over no other file.
model::Result<void> write_adjacent_config(const std::string& plan, const std::string& json);

// What decides the step of an imported plan.

struct Decisions {
  const model::Plan& plan;
  const std::vector<model::PlanAlternative>& alternatives;
  std::function<std::string(int line)> place;  // of a line, for people
  std::string config;                          // of a model that is written next to the plan; empty: the plan's own
  bool all = false;                            // those that hardly change the step too
};

// Prints to stderr under a heading what each decision does to the step: the time per token of the alternative over that
// of the plan, in closed form, the largest change first; where the plan itself is not predicted, the reason.
void print_decisions(const Decisions& decisions);

// What Megatron runs on a GPU in place of the kernels that it is asked for.

struct KernelChange {
  std::string setting;  // KEY=VALUE of the plan
  std::string note;     // why, for people
};

// Gives the plan the kernels that Megatron with Transformer Engine runs on such GPUs, and returns what it changed. Keys
// that the user sets (`overrides`, KEY=VALUE) stay.
std::vector<KernelChange> take_gpu_kernels(const model::Device& device, const std::vector<std::string>& overrides,
                                           model::Plan& plan);

// The same for the GPUs of the plan's own cluster; nothing where that cannot be read.
std::vector<KernelChange> take_gpu_kernels(const std::vector<std::string>& overrides, model::Plan& plan);

}  // namespace plumbline::cli
