// Files that say what to measure on a GPU: .cases, one case per line (real/measure/kernel_case/kernel_case.h), or
// .toml, one
// [[case]] table each with the same keys.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {

// Input errors name file and line of the case.
model::Result<std::vector<KernelCase>> read_case_file(const std::string& path);

}  // namespace plumbline::real
