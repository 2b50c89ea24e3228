// What is known of the machine, for the first record of a run.
#pragma once

#include "real/cuda/measure/toolbox.h"

namespace plumbline::real::cuda {

// Device, clocks, power, driver, versions and places of the libraries as a JSON object; what is missing is named.
Status describe_environment(Toolbox& tools, std::string& object);

// One line per known library: its file and version, or where it was looked for. Needs no device.
std::string describe_libraries(const std::vector<std::string>& folders);

}  // namespace plumbline::real::cuda
