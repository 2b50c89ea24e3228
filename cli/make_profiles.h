// plumbline calibrate --profile: shipped profiles from data in the tree; --stack: a user's own stack.
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

// Fits the constants of a stack to a table of measured steps (the columns plan and step_s, or those of
// calibrate/published/training_steps.csv) and writes the stack to `out`, which extends the stack `extends`, by default
// that of the profile. The column `hardware` names a shipped topology or file, and with a colon a profile:
// "h100-dgx:h100-torch". `csv` takes the tables of the fit; empty: nothing does.
model::Result<void> make_stack(const std::string& steps, const std::string& out, const std::string& extends,
                               const std::string& csv);

}  // namespace plumbline::cli
