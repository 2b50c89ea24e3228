// Files that say what to measure: .cases, one case per line (real/cuda/probe/case.h), or .toml, one [[case]] table
// each with the same keys.
#pragma once

#include <string>

#include "model/base/error.h"

namespace plumbline::cli {

// The cases as the probe reads them, one per line. Errors name file and line of the case.
model::Result<std::string> read_case_file(const std::string& path);

}  // namespace plumbline::cli
