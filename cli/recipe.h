// Recipes by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "sim/search/recipe.h"

namespace plumbline::cli {

// A file ending in .json is a model; any other file is a plan. A name is that of a shipped plan, else of a shipped
// model: its recipe (examples/recipes) with what was published of its training, or the default recipe.
// `gpus`: all sizes asked for, which the default batch must be divisible among.
model::Result<sim::Recipe> find_recipe(const std::string& wanted, const std::vector<std::int64_t>& gpus);

}  // namespace plumbline::cli
