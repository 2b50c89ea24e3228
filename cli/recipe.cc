#include "cli/recipe.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/data.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::Result;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The recipe of a shipped model, or its config.json; nothing where no model has that name.
std::optional<Result<sim::Recipe>> from_model(const std::string& name, const std::vector<std::int64_t>& gpus) {
  const auto config = resolve_model("", name);
  if (!config) return std::nullopt;
  const auto root = data_folder();
  if (!root) return tl::unexpected(root.error());
  const std::string stem = fs::path(*config).stem().string();
  const std::string published = (fs::path(*root) / "examples/recipes" / (stem + ".toml")).string();
  return is_file(published) ? sim::recipe_of_plan(published)
                            : sim::recipe_of_model(*config, "models/" + stem + ".json", gpus);
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

}  // namespace

Result<sim::Recipe> find_recipe(const std::string& wanted, const std::vector<std::int64_t>& gpus) {
  const bool config = wanted.ends_with(".json");
  if (is_file(wanted) && config)
    return sim::recipe_of_model(wanted, fs::absolute(wanted).lexically_normal().string(), gpus);
  if (is_file(wanted)) return sim::recipe_of_plan(wanted);
  if (const auto plan = resolve_plan(wanted); plan && !config) return sim::recipe_of_plan(*plan);
  if (auto recipe = from_model(wanted, gpus)) return std::move(*recipe);
  return unknown(wanted);
}

}  // namespace plumbline::cli
