#include "cli/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/data.h"
#include "model/architecture/architecture.h"
#include "model/architecture/config_reader.h"
#include "model/architecture/metrics.h"
#include "model/base/text_file.h"
#include "reports/text/format.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::Result;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// What the file says of itself: "# Published: ..." and "# Assumed: ...".
std::vector<std::string> stated(const std::string& text) {
  std::vector<std::string> sentences;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.starts_with("# Published: ")) sentences.push_back("published: " + line.substr(13));
    if (line.starts_with("# Assumed: ")) sentences.push_back("assumed: " + line.substr(11));
    begin = end + 1;
  }
  return sentences;
}

Result<Recipe> from_plan_file(const std::string& path) {
  const auto text = model::read_text_file(path);
  if (!text) return tl::unexpected(text.error());
  return Recipe{fs::path(path).stem().string(), *text, path, stated(*text)};
}

// Positions that the model was made for; 0 where its file states none.
Result<std::int64_t> positions_of(const std::string& config) {
  auto reader = model::ConfigReader::open(config);
  if (!reader) return tl::unexpected(reader.error());
  for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len"}) {
    if (const std::int64_t positions = reader->count(key, 0); positions > 0 || reader->error()) {
      if (reader->error()) return tl::unexpected(*reader->error());
      return positions;
    }
  }
  return 0;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// `written`: how the plan names the model.
Result<Recipe> from_config(const std::string& config, const std::string& written,
                           const std::vector<std::int64_t>& gpus) {
  const auto architecture = model::load_architecture(config);
  if (!architecture) return tl::unexpected(architecture.error());
  const auto positions = positions_of(config);
  if (!positions) return tl::unexpected(positions.error());
  constexpr std::int64_t any_length = 4096;  // parameters do not depend on it
  const model::ModelMetrics metrics = model::model_metrics(*architecture, any_length);
  const DefaultRecipe sizes = default_recipe(metrics.parameters, metrics.active_parameters, *positions, gpus);
  Recipe recipe;
  recipe.name = fs::path(config).stem().string();
  recipe.path = config;
  recipe.text = fmt::format(
      "[model]\nconfig = {}\n[batch]\nsequence_length = {}\nmicro_batch_size = 1\nglobal_batch_size = {}\n"
      "[run]\ntokens = {:e}\n",
      quoted(written), sizes.sequence_length, sizes.global_batch_size, sizes.tokens);
  recipe.assumptions = {
      fmt::format("assumed: sequences of {} tokens, the smaller of 4,096 and what the model was made for",
                  reports::grouped(static_cast<double>(sizes.sequence_length))),
      fmt::format("assumed: {} sequences a step ({} tokens): 4 Mi tokens up to 100 B parameters, 16 Mi above",
                  reports::grouped(static_cast<double>(sizes.global_batch_size)),
                  reports::scaled(static_cast<double>(sizes.global_batch_size * sizes.sequence_length))),
      fmt::format("assumed: {} tokens in all, 20 per parameter that a token uses ({}; arXiv 2203.15556)",
                  reports::scaled(sizes.tokens), reports::scaled(metrics.active_parameters)),
      "assumed: BF16, gradients and optimizer in FP32"};
  if (metrics.active_parameters < metrics.parameters / 2)
    recipe.assumptions.push_back("assumed: tokens choose their experts evenly (routing.imbalance 0)");
  return recipe;
}

// The recipe of a shipped model, or its config.json; nothing where no model has that name.
std::optional<Result<Recipe>> from_model(const std::string& name, const std::vector<std::int64_t>& gpus) {
  const auto config = resolve_model("", name);
  if (!config) return std::nullopt;
  const auto root = data_folder();
  if (!root) return tl::unexpected(root.error());
  const std::string stem = fs::path(*config).stem().string();
  const std::string published = (fs::path(*root) / "examples/recipes" / (stem + ".toml")).string();
  return is_file(published) ? from_plan_file(published) : from_config(*config, "models/" + stem + ".json", gpus);
}

tl::unexpected<model::Error> unknown(const std::string& wanted) {
  const auto root = data_folder();
  if (!root) return tl::make_unexpected(root.error());
  const fs::path examples = fs::path(*root) / "examples";
  const auto models = model::names_in_folder((examples / "models").string(), ".json");
  const auto plans = model::names_in_folder(examples.string(), ".toml");
  std::vector<std::string> all = models;
  all.insert(all.end(), plans.begin(), plans.end());
  const std::string nearest = model::nearest_name(wanted, all);
  model::Error error;
  error.message = fmt::format("no file, no shipped model and no shipped plan named '{}'", wanted);
  error.hint =
      fmt::format("{}models: {}; plans: {}", nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                  fmt::join(models, ", "), fmt::join(plans, ", "));
  return tl::make_unexpected(std::move(error));
}

std::int64_t odd_part(std::int64_t value) {
  while (value > 0 && value % 2 == 0) value /= 2;
  return value;
}

}  // namespace

DefaultRecipe default_recipe(double parameters, double active_parameters, std::int64_t positions,
                             const std::vector<std::int64_t>& gpus) {
  constexpr std::int64_t longest = 4096;
  constexpr double tokens_per_parameter = 20, small = 1 << 22, large = 1 << 24, large_model = 100e9;
  DefaultRecipe recipe;
  recipe.sequence_length = positions > 0 ? std::min(positions, longest) : longest;
  recipe.tokens = std::round(tokens_per_parameter * active_parameters);
  std::int64_t odd = 1;
  for (const std::int64_t size : gpus) odd = std::lcm(odd, odd_part(std::max<std::int64_t>(size, 1)));
  const double sequences =
      (parameters <= large_model ? small : large) / static_cast<double>(recipe.sequence_length * odd);
  recipe.global_batch_size = odd * (std::int64_t{1} << std::lround(std::max(0.0, std::log2(sequences))));
  return recipe;
}

Result<Recipe> find_recipe(const std::string& wanted, const std::vector<std::int64_t>& gpus) {
  const bool config = wanted.ends_with(".json");
  if (is_file(wanted) && config) return from_config(wanted, fs::absolute(wanted).lexically_normal().string(), gpus);
  if (is_file(wanted)) return from_plan_file(wanted);
  if (const auto plan = resolve_plan(wanted); plan && !config) return from_plan_file(*plan);
  if (auto recipe = from_model(wanted, gpus)) return std::move(*recipe);
  return unknown(wanted);
}

}  // namespace plumbline::cli
