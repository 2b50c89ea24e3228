// Makes profiles by the recipes of a data folder, each once: a recipe's neighbors are made before it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/fit/held_out.h"
#include "calibrate/fit/recipe/recipe.h"

namespace plumbline::calibrate {

struct MadeProfile {
  std::string text;  // of the profile's file, the same on every machine
  std::vector<model::Parameter> constants;
  std::vector<model::ConstantFit> fits;  // constants whose errors are not independent
  std::vector<HeldOut> held_out;         // errors on rows that the fits did not use
  std::vector<std::string> notes;        // what differs between sources, and which rows were left out
};

// Runs the steps. Input errors name the recipe's file and line, or that of the table at fault.
model::Result<MadeProfile> make_profile(const Recipe& recipe, const RecipeInputs& inputs);

struct RecipeFolders {
  std::string recipes;     // <name>.toml, and stated/ for constants that recipes state
  std::string profiles;    // profiles that no recipe makes, which others extend or take constants from
  std::string components;  // component tables, a folder for each GPU
  std::string measured;    // own records
  std::string devices;     // device files
};

class ProfileMaker {
 public:
  explicit ProfileMaker(RecipeFolders folders) : folders_(std::move(folders)) {}

  // Returns the names of all recipes, sorted.
  std::vector<std::string> names() const;

  // Returns the profile and keeps it. Input errors: no such recipe, with the nearest name; recipes that need each
  // other; everything make_profile() reports.
  model::Result<const MadeProfile*> make(const std::string& name);

 private:
  model::Result<MadeProfile> run(const std::string& name);
  model::Result<model::Profile> profile(const std::string& name);

  RecipeFolders folders_;
  std::map<std::string, std::unique_ptr<MadeProfile>> made_;  // null while it is being made
  std::map<std::string, model::Profile> profiles_;
};

}  // namespace plumbline::calibrate
