// Reads configurations of other programs into plans: torchtitan, DeepSpeed, accelerate, NeMo, Hugging Face models.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/configurations/draft.h"
#include "model/configurations/format.h"
#include "model/plan/alternative.h"
#include "model/plan/plan.h"

namespace plumbline::model::configurations {

struct ImportedConfiguration {
  Plan plan;
  std::string toml;  // the plan with the origin of each value
  std::optional<std::string> config_json;
  std::vector<Note> notes;
  std::int64_t no_cost = 0;                   // keys of the file that change no cost
  std::vector<PlanAlternative> alternatives;  // without each key that changes the plan, with some that were assumed
};

const std::vector<ConfigurationFormat>& configuration_formats();

// Returns the plan of a file. Errors name the file, the line and the key: syntax, values that are none, contradictions
// between keys, and together all that the file lacks and no option gives.
Result<ImportedConfiguration> import_configuration(const ConfigurationFormat& format, std::string_view text,
                                                   const std::string& path, const ConfigurationImport& options);

// Returns a first plan for a model whose training no file describes: fully sharded, at first without and then with
// recomputation and with tensor parallelism, the first that fits. Every choice is noted. `model` names the model in the
// plan, `path` its file in errors.
Result<ImportedConfiguration> starting_plan(const std::string& model, const std::string& path,
                                            const Architecture& architecture, const std::vector<std::string>& overrides,
                                            const std::function<Result<bool>(const Plan& plan)>& fits);

}  // namespace plumbline::model::configurations
