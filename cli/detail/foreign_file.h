// Recognizes files of other programs, where one of plumbline is expected.
#pragma once

#include <string>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::cli {

// Returns an input error where the file is of another program, with the command that reads it. `what` is expected:
// "plan", "topology". A file that is not recognized, or cannot be read, is left to its reader.
model::Result<void> refuse_foreign(const std::string& path, std::string_view what);

}  // namespace plumbline::cli
