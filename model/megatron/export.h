// From a plan and its model to a launch script of Megatron-LM.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/model_shape.h"
#include "model/plan/plan.h"

namespace plumbline::model::megatron {

struct ExportedScript {
  std::string script;
  std::vector<std::string> notes;  // keys that no argument says
};

// What no argument says stays in the script as "# plumbline: KEY = VALUE", so that import_script gives the same plan
// again (but for model.config and stated phases). Which keys those are is found by reading the arguments back.
Result<ExportedScript> export_script(const Plan& plan, const ModelShape& shape);

}  // namespace plumbline::model::megatron
