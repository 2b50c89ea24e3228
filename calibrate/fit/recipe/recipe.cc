#include "calibrate/fit/recipe/recipe.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model/base/table_reader.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {
namespace {

using model::TableReader;

const std::vector<std::string> known_fits = {
#define FIT_STEP(name, run) #name,
#include "calibrate/fit/recipe/detail/fit_steps.def"
};

RecipeStep read_step(TableReader& table, const std::string& path) {
  RecipeStep step;
  step.path = path;
  step.line = table.line();
  READ_OPTIONAL(table, step, fit, neighbor, kind, format, software, kernel, op, tables, constant, quantizes,
                uses_nvlink, switch_sums, share, uncertainty, constants, by, over, times, rename, to, same, because);
  if (step.fit.empty() == step.neighbor.empty())
    table.fail("fit", step.line, "a step either fits or takes constants of a neighbor",
               "give one of fit = \"...\" and neighbor = \"...\"");
  if (!step.fit.empty() && std::ranges::find(known_fits, step.fit) == known_fits.end())
    table.fail("fit", table.line_of("fit"), "unknown fit", model::known_names(step.fit, known_fits));
  if (!step.neighbor.empty()) table.require("constants");
  return step;
}

model::Result<std::vector<RecipeStep>> shared_steps(const std::string& path) {
  std::vector<RecipeStep> steps;
  TRY(model::read_table_file(path, [&](TableReader& file) {
    file.optional_tables("step", [&](TableReader& table) { steps.push_back(read_step(table, path)); });
  }));
  return steps;
}

// Reads what a table that names files of steps states for each of them, in place of what the file states.
void read_instead(TableReader& table, RecipeStep& step) {
  const auto text = [&](const char* key, std::string& value) {
    if (table.has(key)) value = table.text(key);
  };
  if (!step.neighbor.empty()) text("neighbor", step.neighbor);
  text("tables", step.tables);
  text("because", step.because);
  if (const auto times = table.optional_positive("times")) step.times = times;
  if (const auto uncertainty = table.optional_positive("uncertainty")) step.uncertainty = uncertainty;
}

// Reads a table of [[step]], which is a step or names files of steps. Returns the error of such a file.
model::Result<void> read_steps(TableReader& table, Recipe& recipe) {
  if (!table.has("steps")) {
    recipe.steps.push_back(read_step(table, recipe.path));
    return {};
  }
  const std::filesystem::path folder = std::filesystem::path(recipe.path).parent_path() / "steps";
  for (const std::string& name : table.texts("steps")) {
    const std::string path = (folder / (name + ".toml")).string();
    if (!std::filesystem::exists(path)) {
      table.fail("steps", table.line_of("steps"), "no steps '" + name + "' in " + folder.string(),
                 model::known_names(name, model::names_in_folder(folder.string(), ".toml")));
      return {};
    }
    for (RecipeStep& step : TRY(shared_steps(path))) {
      read_instead(table, step);
      recipe.steps.push_back(std::move(step));
    }
  }
  return {};
}

}  // namespace

bool RecipeStep::names(const std::string& of) const {
  return std::ranges::any_of(software, [&](const std::string& start) { return of.starts_with(start); });
}

model::Result<Recipe> load_recipe(const std::string& path) {
  Recipe recipe;
  recipe.path = path;
  std::optional<model::Error> wrong;  // of a file of steps
  TRY(model::read_table_file(path, [&](TableReader& file) {
    READ_REQUIRED(file, recipe, name, description, extends, about, devices);
    READ_OPTIONAL(file, recipe, stack, tables, measured, stated);
    file.optional_tables("step", [&](TableReader& table) {
      if (const auto read = read_steps(table, recipe); !read && !wrong) wrong = read.error();
    });
  }));
  if (wrong) return tl::unexpected(*wrong);
  return recipe;
}

}  // namespace plumbline::calibrate
