// The formats of `plumbline import`, one file each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

struct ImportArguments {
  std::string file, out;
  std::string classes;        // of kernels; empty: the shipped ones
  std::optional<int> device;  // of a trace with several
  // Of a launch script:
  std::string model;                     // shipped or a path; empty: the script's own
  std::string topology;                  // empty: h100-dgx
  std::vector<std::string> definitions;  // NAME=VALUE of variables from outside
  std::string more_arguments;            // as if the script gave them last
  std::vector<std::string> overrides;    // of the plan
};

// Reads a PyTorch-profiler trace and writes a chunk measurement; says on stderr what was taken and what has no class.
model::Result<void> import_kineto_trace(const ImportArguments& arguments);

// Reads what nccl-tests print and writes measurements: JSON Lines to a .jsonl file, else CSV.
model::Result<void> import_nccl_tests(const ImportArguments& arguments);

// Reads a topology dump of NCCL and writes a topology file; says on stderr what is assumed or left out.
model::Result<void> import_nccl_topology(const ImportArguments& arguments);

// Reads a launch script of Megatron-LM and writes a plan, with the model's config.json beside it; says on stderr what
// was assumed and what was not understood.
model::Result<void> import_megatron(const ImportArguments& arguments);

}  // namespace plumbline::cli
