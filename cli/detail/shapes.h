// The kernels of a model or plan as cases to measure (real/measure/kernel_case/kernel_case.h), one per line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/cost/kernel_shapes.h"

namespace plumbline::cli {

// `model` stands before the names. What is not measured is a comment that says so.
std::string shapes_text(const model::KernelShapes& shapes, const std::string& model);

// Of a plan's program, or of a model on one GPU with the plan's defaults where `name` is a model: its changes
// (--set) then say what a plan would.
model::Result<std::string> show_shapes(const std::string& name, std::int64_t sequence_length,
                                       const std::vector<std::string>& overrides);

}  // namespace plumbline::cli
