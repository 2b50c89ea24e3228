// The scripts of cli/import as parts of the library: what stands in front of PATH while a launch script is executed.
#pragma once

#include <string_view>

namespace plumbline::cli {

// A script of bash that writes down how it is called, and does nothing of it. Its folder holds it under the name of
// every program that it stands for; PLUMBLINE_FOLDER names the folder around that one, PLUMBLINE_GPUS the GPUs of a
// node.
extern const std::string_view recorder;

// What bash reads before every script (BASH_ENV): it keeps the recorders in front of PATH.
extern const std::string_view recorder_setup;

}  // namespace plumbline::cli
