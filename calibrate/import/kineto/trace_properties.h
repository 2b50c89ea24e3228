// What a trace says about itself.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

// The top-level values of a trace that describe it: traceName, deviceProperties, distributedInfo. What is missing
// or odd is passed over.
void read_properties(const std::map<std::string, std::string, std::less<>>& properties, Trace& trace);

}  // namespace plumbline::calibrate
