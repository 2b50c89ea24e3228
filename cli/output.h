// Where results and errors of a verb go.
#pragma once

#include <string>

#include "model/base/error.h"

namespace plumbline::cli {

// "-" is stdout. A file is written under a temporary name in its folder and then renamed, so that an
// interrupted run leaves no half file. Fails (input) when the folder is missing or not writable.
model::Result<void> write_output(const std::string& path_or_dash, const std::string& content);

// 1 for wrong input, 2 for infeasible.
int code_of(const model::Error& error);

// Prints the error to stderr and returns its exit code.
int report(const model::Error& error);

}  // namespace plumbline::cli
