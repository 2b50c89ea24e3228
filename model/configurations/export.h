// Writes a plan as a configuration of another program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model::configurations {

struct ExportInput {
  const Plan& plan;
  const Architecture& architecture;
  std::int64_t gpus_per_node = 0;  // of the cluster
};

struct ExportedConfiguration {
  std::string text;
  std::vector<std::string> notes;   // keys of the plan that the format does not express
  std::vector<std::string> launch;  // how it is started, where the text does not have it
};

// Return a function of torchtitan's registry, or for the stack torchtitan-compile a train.toml, with the command that
// starts it as a comment, and a ds_config.json, which has no comments. Keys that reading the file back does not give
// are notes; torchtitan's file has them as "# plumbline: KEY = VALUE", from which the import restores them. Infeasible
// where torchtitan has no flavor of the model.
Result<ExportedConfiguration> export_torchtitan(const ExportInput& input);
Result<ExportedConfiguration> export_deepspeed(const ExportInput& input);

}  // namespace plumbline::model::configurations
