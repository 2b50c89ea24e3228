// Makes a shipped profile by its recipe, from data in the tree.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/components/held_out.h"
#include "calibrate/recipe/recipe.h"
#include "calibrate/recipe/recipe_inputs.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

struct MadeProfile {
  std::string text;  // of the profile's file, the same on every machine
  std::vector<model::Parameter> constants;
  std::vector<HeldOut> held_out;   // errors on rows that the fits did not use
  std::vector<std::string> notes;  // what differs between sources, and which rows were left out
};

// Runs the steps. Input errors name the recipe's file and line, or that of the table at fault.
model::Result<MadeProfile> make_profile(const Recipe& recipe, const RecipeInputs& inputs);

}  // namespace plumbline::calibrate
