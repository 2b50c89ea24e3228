// plumbline calibrate --profile: shipped profiles from data in the tree.
#pragma once

#include <string>

#include "calibrate/fit/recipe/profile_maker.h"
#include "model/base/error.h"

namespace plumbline::cli {

// Returns the folders of the shipped recipes and of the data that they use.
model::Result<calibrate::RecipeFolders> recipe_folders();

// Makes the profile of this name, or "all", and prints what differs between its sources. `out` is the file, of "all" a
// folder; empty: the shipped profiles themselves.
model::Result<void> make_profiles(const std::string& name, const std::string& out);

}  // namespace plumbline::cli
