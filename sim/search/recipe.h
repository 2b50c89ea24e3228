// Plans that may lack their cluster, read from a file or made from a model with the usual training sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

// The training sizes of a model without published ones:
//   sequence = min(4096, max_position_embeddings)
//   tokens   = 20 per parameter that a token uses (arXiv 2203.15556)
//   batch    = 4 Mi tokens up to 100 B parameters in all, 16 Mi above, as a number of sequences 2^k * (the odd part
//              of the least common multiple of the GPUs), the nearest by ratio; of `asked` tokens at most a thousandth,
//              but 32 sequences at least, the batch of LIMA (arXiv 2305.11206)
// in BF16. `parameters` excludes multi-token prediction. `positions` is 0 where the file has none. `asked` tokens take
// the place of the default ones, as of a fine-tuning.
struct DefaultRecipe {
  double parameters = 0, active_parameters = 0;
  std::int64_t sequence_length = 0, global_batch_size = 0;
  double tokens = 0;
};
DefaultRecipe default_recipe(double parameters, double active_parameters, std::int64_t positions,
                             const std::vector<std::int64_t>& gpus, std::optional<double> asked = std::nullopt);

struct Recipe {
  std::string name;                       // "deepseek-v3"
  std::string text, path;                 // the plan as TOML, and the file named in errors
  std::vector<std::string> stated;        // the statements in the file, sentences without full stop
  std::optional<DefaultRecipe> defaults;  // set where the sizes are the default ones
};

// Reads a plan's file. Its statements are the lines "# Published: ..." and "# Assumed: ...".
model::Result<Recipe> recipe_of_plan(const std::string& path);

// Makes the default recipe for a model's config.json. `written` is the name of the model in the plan. `gpus` are all
// requested sizes; the default batch must be divisible among each. `tokens` are those asked for.
model::Result<Recipe> recipe_of_model(const std::string& config, const std::string& written,
                                      const std::vector<std::int64_t>& gpus, std::optional<double> tokens);

}  // namespace plumbline::sim
