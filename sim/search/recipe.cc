#include "sim/search/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "model/architecture/load_architecture.h"
#include "model/architecture/metrics.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::sim {
namespace {

namespace fs = std::filesystem;
using model::Result;

// Returns the file's statements: "# Published: ..." and "# Assumed: ...".
std::vector<std::string> stated(const std::string& text) {
  std::vector<std::string> sentences;
  for (const std::string_view line : model::lines_of(text)) {
    if (line.starts_with("# Published: ")) sentences.push_back(fmt::format("published: {}", line.substr(13)));
    if (line.starts_with("# Assumed: ")) sentences.push_back(fmt::format("assumed: {}", line.substr(11)));
  }
  return sentences;
}

std::int64_t odd_part(std::int64_t value) {
  while (value > 0 && value % 2 == 0) value /= 2;
  return value;
}

}  // namespace

DefaultRecipe default_recipe(double parameters, double active_parameters, std::int64_t positions,
                             const std::vector<std::int64_t>& gpus, std::optional<double> asked) {
  constexpr std::int64_t longest = 4096;
  constexpr double tokens_per_parameter = 20, small = 1 << 22, large = 1 << 24, large_model = 100e9,
                   fewest_steps = 1000, fewest_sequences = 32;
  DefaultRecipe recipe;
  recipe.parameters = parameters;
  recipe.active_parameters = active_parameters;
  recipe.sequence_length = positions > 0 ? std::min(positions, longest) : longest;
  recipe.tokens = asked.value_or(std::round(tokens_per_parameter * active_parameters));
  std::int64_t odd = 1;
  for (const std::int64_t size : gpus) odd = std::lcm(odd, odd_part(std::max<std::int64_t>(size, 1)));
  double tokens = parameters <= large_model ? small : large;
  const auto length = static_cast<double>(recipe.sequence_length);
  if (asked) tokens = std::min(tokens, std::max(*asked / fewest_steps, fewest_sequences * length));
  const double sequences = tokens / (length * static_cast<double>(odd));
  recipe.global_batch_size = odd * (std::int64_t{1} << std::lround(std::max(0.0, std::log2(sequences))));
  return recipe;
}

Result<Recipe> recipe_of_plan(const std::string& path) {
  const auto text = TRY(model::read_text_file(path));
  return Recipe{fs::path(path).stem().string(), text, path, stated(text), {}};
}

Result<Recipe> recipe_of_model(const std::string& config, const std::string& written,
                               const std::vector<std::int64_t>& gpus, std::optional<double> tokens) {
  const auto architecture = TRY(model::load_architecture(config));
  const auto positions = TRY(model::longest_sequence(config));
  constexpr std::int64_t any_length = 4096;  // parameters do not depend on it
  const model::ModelMetrics metrics = model::model_metrics(architecture, any_length);
  const DefaultRecipe sizes = default_recipe(metrics.parameters, metrics.active_parameters, positions, gpus, tokens);
  Recipe recipe;
  recipe.name = fs::path(config).stem().string();
  recipe.path = config;
  recipe.text = fmt::format(
      "[model]\nconfig = {}\n[batch]\nsequence_length = {}\nmicro_batch_size = 1\nglobal_batch_size = {}\n"
      "[run]\ntokens = {:e}\n",
      model::toml_string(written), sizes.sequence_length, sizes.global_batch_size, sizes.tokens);
  recipe.defaults = sizes;
  return recipe;
}

}  // namespace plumbline::sim
