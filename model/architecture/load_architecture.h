// Reads a Hugging Face config.json into an architecture.
#pragma once

#include <cstdint>
#include <string>

#include "model/architecture/architecture.h"
#include "model/architecture/config_value.h"
#include "model/base/error.h"

namespace plumbline::model {

struct Plan;

// Reads the model types of model/architecture/families/families.h. Unknown keys are ignored; missing ones take Hugging
// Face's defaults, except dimensions, which are required.
Result<Architecture> load_architecture(const std::string& path);

// Does the same with the plan's keys under [model] in place of those of the file. A key that this type of model does
// not read is an error; errors about the plan's keys give their place in the plan.
Result<Architecture> load_architecture_of(const Plan& plan, const std::string& path);

}  // namespace plumbline::model
