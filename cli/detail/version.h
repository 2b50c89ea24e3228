// The text of `plumbline --version` and `plumbline version`.
#pragma once

#include <string>

namespace plumbline::cli {

// Returns the version, the revision of the sources, and what this binary was built with, a line each.
std::string version_text();

}  // namespace plumbline::cli
