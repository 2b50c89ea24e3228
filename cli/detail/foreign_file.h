// Recognizes files of other programs, where one of plumbline is expected.
#pragma once

#include <string>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::cli {

// Returns an input error where the file is of another program, with the command that reads it. `what` is expected:
// "plan", "topology", "model". A file that is not recognized, or cannot be read, is left to its reader.
model::Result<void> refuse_foreign(const std::string& path, std::string_view what);

// Returns an input error where no command reads files of this kind, whose keys may look like those of another program.
model::Result<void> refuse_unread(const std::string& path);

// Returns the error with which an importer refused the file or, where the file is of another format, one that names it.
model::Error of_its_format(const model::Error& error, const std::string& path, std::string_view format);

}  // namespace plumbline::cli
