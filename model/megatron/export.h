// Writes a plan and its model as a launch script of Megatron-LM.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/model_shape.h"
#include "model/plan/plan.h"

namespace plumbline::model::megatron {

struct ExportedScript {
  std::string script;
  std::vector<std::string> notes;  // keys that no argument sets
};

// Keys that no argument sets are written as "# plumbline: KEY = VALUE", so that import_script returns the same plan
// (except model.config and stated phases). They are found by reading the written arguments back.
Result<ExportedScript> export_script(const Plan& plan, const ModelShape& shape);

}  // namespace plumbline::model::megatron
