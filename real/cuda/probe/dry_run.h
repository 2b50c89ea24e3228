// The cases without a GPU: what they must do, what bounds them, how long measuring them takes.
#pragma once

#include <string>
#include <vector>

#include "real/cuda/probe/case.h"
#include "real/cuda/probe/work.h"

namespace plumbline::real::cuda {

// One line per case: FLOPs, bytes, floor time and what bounds it; a line with totals at the end. `samples` per
// variant; what the device cannot do takes no time.
std::string dry_run_table(const std::vector<Case>& cases, const DevicePeak& peak, int samples = 30);

}  // namespace plumbline::real::cuda
