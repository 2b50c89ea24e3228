#include "calibrate/fit/recipe/profile_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "calibrate/measurement/measurement_file.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {
namespace {

namespace fs = std::filesystem;

std::string toml_file(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / (name + ".toml")).string();
}

// Returns the base with the constants in place of those of the same name.
model::Profile merged(const Recipe& recipe, const model::Profile& base, const MadeProfile& made) {
  const auto stays = [&](const std::string& name) {
    return std::ranges::find(made.constants, name, &model::Parameter::name) == made.constants.end();
  };
  std::vector<model::Parameter> parameters = made.constants;
  std::ranges::copy_if(base.parameters(), std::back_inserter(parameters), stays, &model::Parameter::name);
  std::vector<model::ConstantFit> fits = model::kept(base.fits(), stays);
  std::ranges::copy(made.fits, std::back_inserter(fits));
  return {recipe.name, recipe.description, std::move(parameters), recipe.devices, "", std::move(fits)};
}

}  // namespace

std::vector<std::string> ProfileMaker::names() const { return model::names_in_folder(folders_.recipes, ".toml"); }

model::Result<const MadeProfile*> ProfileMaker::make(const std::string& name) {
  if (const auto found = made_.find(name); found != made_.end()) {
    if (found->second != nullptr) return found->second.get();
    return model::wrong_input_at(toml_file(folders_.recipes, name), 0, "step.neighbor",
                                 fmt::format("the recipe of '{}' needs itself", name), "break the circle");
  }
  const std::vector<std::string> known = names();
  if (std::ranges::find(known, name) == known.end())
    return model::wrong_input("--profile", fmt::format("no recipe makes a profile '{}'", name),
                              model::known_names(name, known));
  made_[name] = nullptr;
  auto made = run(name);
  if (!made) {
    made_.erase(name);
    return tl::unexpected(made.error());
  }
  auto& kept = made_[name];
  kept = std::make_unique<MadeProfile>(std::move(*made));
  return kept.get();
}

model::Result<MadeProfile> ProfileMaker::run(const std::string& name) {
  const auto recipe = TRY(load_recipe(toml_file(folders_.recipes, name)));
  const RecipeInputs inputs{.devices = folders_.devices,
                            .components = folders_.components,
                            .stated = (fs::path(folders_.recipes) / "stated").string(),
                            .measurements = [this](const std::string& file) -> model::Result<Measurements> {
                              const auto devices = TRY(topologies::load_devices(folders_.devices));
                              return load_measurements((fs::path(folders_.measured) / file).string(), devices);
                            },
                            .profile = [this](const std::string& wanted) { return profile(wanted); }};
  auto made = TRY(make_profile(recipe, inputs));
  const auto base = TRY(profile(recipe.extends));
  profiles_.insert_or_assign(name, merged(recipe, base, made));
  return made;
}

model::Result<model::Profile> ProfileMaker::profile(const std::string& name) {
  if (name.starts_with("stated/")) return model::load_profile(toml_file(folders_.recipes, name));
  if (!fs::exists(toml_file(folders_.recipes, name))) {
    const std::string path = toml_file(folders_.profiles, name);
    if (fs::exists(path)) return model::load_profile(path);
    return model::wrong_input("step.neighbor", fmt::format("neither a recipe nor a profile '{}'", name),
                              model::did_you_mean(name, names()));
  }
  TRY(make(name));
  return profiles_.at(name);
}

}  // namespace plumbline::calibrate
