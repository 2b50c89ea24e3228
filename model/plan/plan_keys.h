// The names a plan may use, and the nearest of them to one that is wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model {

struct Plan;

// The model by its name and what the plan changes of it: "deepseek-v3", "deepseek-v3 (n_routed_experts 512)".
std::string model_name(const Plan& plan);

std::vector<std::string> plan_keys();      // every dotted key in file order, run.phase and any model's keys included
std::vector<std::string> plan_sections();  // "model", "cluster", ...

// "did you mean 'parallelism.pipeline'?": the nearest key of the same section, else one of that name in
// another section, else the nearest section, else the list of sections.
std::string plan_key_hint(std::string_view dotted);

}  // namespace plumbline::model
