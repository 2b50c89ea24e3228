// The formats of `plumbline import`, one file each.
#pragma once

#include <optional>
#include <string>

#include "model/error.h"

namespace plumbline::cli {

struct ImportArguments {
  std::string file, out;
  std::string classes;        // of kernels; empty: the shipped ones
  std::optional<int> device;  // of a trace with several
};

// Reads a PyTorch-profiler trace and writes a chunk measurement; says on stderr what was taken and what has no class.
model::Result<void> import_kineto_trace(const ImportArguments& arguments);

// Reads what nccl-tests print and writes measurements: JSON Lines to a .jsonl file, else CSV.
model::Result<void> import_nccl_tests(const ImportArguments& arguments);

// Reads a topology dump of NCCL and writes a topology file; says on stderr what is assumed or left out.
model::Result<void> import_nccl_topology(const ImportArguments& arguments);

}  // namespace plumbline::cli
