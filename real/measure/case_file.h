// Files that list what to measure on a GPU: .cases with one case per line (real/measure/kernel_case/kernel_case.h), or
// .toml with one [[case]] table per case and the same keys.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {

// Input errors name the file and the line of the case.
model::Result<std::vector<KernelCase>> read_case_file(const std::string& path);

}  // namespace plumbline::real
