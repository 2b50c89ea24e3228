// The built-in sweep: what is worth measuring on a GPU that one has for a few minutes, most valuable first.
#pragma once

#include <vector>

#include "real/cuda/probe/case.h"

namespace plumbline::real::cuda {

// The order: device rates, DeepSeek-V3 forward, its memory-bound kernels, the SM partition at the sizes that matter,
// experts in one call, full power, gradients, then Llama 3 and the finer steps of the partition. `sms` is the device's
// SM count (it sets the SM targets of the partition), `ranks` that of the processes. No case appears twice.
std::vector<Case> built_in_sweep(int sms = 132, int ranks = 1);

}  // namespace plumbline::real::cuda
