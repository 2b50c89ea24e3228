// From what a buyer names (a model, its config.json, or a plan) to a plan that lacks at most its cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::cli {

struct Recipe {
  std::string name;                      // "deepseek-v3"
  std::string text, path;                // the plan as TOML, and the file that errors name
  std::vector<std::string> assumptions;  // sentences without full stop: what nobody stated
};

// A file ending in .json is a model; any other file is a plan. A name is that of a shipped plan, else of a shipped
// model: its recipe (examples/recipes) with what was published of its training, or the default recipe.
// `gpus`: all sizes asked for, which the default batch must be divisible among.
model::Result<Recipe> find_recipe(const std::string& wanted, const std::vector<std::int64_t>& gpus);

// The default recipe of a model nobody published a training of:
//   sequence = min(4096, max_position_embeddings)
//   tokens   = 20 per parameter that a token uses (arXiv 2203.15556)
//   batch    = 4 Mi tokens up to 100 B parameters in all, 16 Mi above, as a number of sequences 2^k * (the odd part
//              of the least common multiple of the GPUs), the nearest by ratio
// in BF16. `parameters` without multi-token prediction; `positions` 0: the file states none.
struct DefaultRecipe {
  std::int64_t sequence_length = 0, global_batch_size = 0;
  double tokens = 0;
};
DefaultRecipe default_recipe(double parameters, double active_parameters, std::int64_t positions,
                             const std::vector<std::int64_t>& gpus);

}  // namespace plumbline::cli
