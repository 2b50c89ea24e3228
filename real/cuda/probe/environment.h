// What is known of the machine, for the first record of a run.
#pragma once

#include "real/cuda/json_line.h"
#include "real/cuda/probe/toolbox.h"

namespace plumbline::real::cuda {

// Device, clocks, power, driver, versions and places of the libraries; what is missing is named.
Status describe_environment(Toolbox& tools, JsonLine& line);

// One line per known library: its file and version, or where it was looked for. Needs no device.
std::string list_libraries(const std::vector<std::string>& folders);

}  // namespace plumbline::real::cuda
