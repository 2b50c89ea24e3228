// What Megatron runs on a GPU in place of the kernels that it is asked for.
#pragma once

#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/profile/cluster.h"

namespace plumbline::cli {

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
