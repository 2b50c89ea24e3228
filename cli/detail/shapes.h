// The kernels of a model or plan as cases to measure (real/measure/kernel_case/kernel_case.h), one per line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/program/program.h"

namespace plumbline::cli {

// Returns the cases; names begin with `model`. Kernels that are not measured are listed in a comment.
std::string shapes_text(const model::KernelShapes& shapes, const std::string& model);

// Returns the cases of a plan's program, or of a model on one GPU with the plan's defaults where `name` is a model;
// `overrides` (--set) then change these defaults.
model::Result<std::string> show_shapes(const std::string& name, std::int64_t sequence_length,
                                       const std::vector<std::string>& overrides);

}  // namespace plumbline::cli
