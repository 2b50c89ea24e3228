// Plans that lack at most their cluster: from a file, or from a model with the usual sizes of a training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

// The sizes of a training that nobody published:
//   sequence = min(4096, max_position_embeddings)
//   tokens   = 20 per parameter that a token uses (arXiv 2203.15556)
//   batch    = 4 Mi tokens up to 100 B parameters in all, 16 Mi above, as a number of sequences 2^k * (the odd part
//              of the least common multiple of the GPUs), the nearest by ratio
// in BF16. `parameters` without multi-token prediction; `positions` 0: the file states none.
struct DefaultRecipe {
  double parameters = 0, active_parameters = 0;
  std::int64_t sequence_length = 0, global_batch_size = 0;
  double tokens = 0;
};
DefaultRecipe default_recipe(double parameters, double active_parameters, std::int64_t positions,
                             const std::vector<std::int64_t>& gpus);

struct Recipe {
  std::string name;                       // "deepseek-v3"
  std::string text, path;                 // the plan as TOML, and the file that errors name
  std::vector<std::string> stated;        // what the file says of itself, sentences without full stop
  std::optional<DefaultRecipe> defaults;  // where nobody stated them
};

// A plan's file: "# Published: ..." and "# Assumed: ..." are its statements.
model::Result<Recipe> recipe_of_plan(const std::string& path);

// A model's config.json with the default recipe. `written`: how the plan names the model. `gpus`: all sizes asked for,
// which the default batch must be divisible among.
model::Result<Recipe> recipe_of_model(const std::string& config, const std::string& written,
                                      const std::vector<std::int64_t>& gpus);

}  // namespace plumbline::sim
