// A recipe is how a shipped profile is made of data in the tree: calibrate/recipes/<name>.toml. Its steps run in
// order, and a later step replaces constants of an earlier one. What the steps do: docs/profiles.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/held_out.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

struct RecipeStep {
  std::string path;  // of the file that has it
  int line = 0;
  // The fit, from component tables or from records of `measured`: a row of the table in docs/profiles.md. Empty:
  // constants of a neighbor.
  std::string fit;
  std::string kind;                   // of GEMMs in the profile: "fp8_tensor" of gemm.fp8_tensor.k_time
  std::string format;                 // of rows
  std::vector<std::string> software;  // of rows, how their software begins; the first gives a GEMM's shape
  std::string kernel, op, constant;   // of rows; of records, or "forward" and "backward"; what they give
  std::string tables;                 // folder of component tables of another GPU; empty: the recipe's
  bool quantizes = true;     // whether times of quantized formats hold the quantizing kernel; decode_gemm: and gaps
  bool uses_nvlink = true;   // whether low-latency kernels do so within a node
  bool switch_sums = false;  // whether the switch of a node sums
  std::optional<double> share, uncertainty;  // of pair_time, see fit_attention_table(); the least that is stated
  // A neighbor: patterns of constants, taken times the ratio own / neighbor of each constant in `by` and the inverse of
  // each in `over`. Figures of the device file are "device.<name>". `self` is the profile that is made, stated/<name>
  // the constants that another recipe states.
  std::string neighbor;
  std::vector<std::string> constants, by, over;
  std::optional<double> times;  // one more factor; attention_training: on measured times
  std::string rename, to;       // the beginning of the constants' names, and what stands in its place
  bool same = false;            // unscaled and of the same kernels or links: kind and uncertainty stay
  std::string because;          // ends the source

  bool names(const std::string& software) const;  // by its beginning
};

struct Recipe {
  std::string path;
  std::string name, description, extends;
  std::string stack;                 // which people run on the GPU; empty: that of `extends`
  std::vector<std::string> about;    // lines of the comment that begins the profile
  std::vector<std::string> devices;  // that the profile holds for; the first gives datasheet figures
  std::string tables;                // folder of component tables; may be empty
  std::string measured;              // file of own records; may be empty
  std::string stated;                // file of constants that are no result of a fit, in calibrate/recipes/stated
  std::vector<RecipeStep> steps;
};

// Where a recipe finds its data.
struct RecipeInputs {
  std::string devices;     // folder of device files
  std::string components;  // folder of component tables
  std::string stated;      // folder of constants that recipes state
  std::function<model::Result<Measurements>(const std::string& name)> measurements;  // own records
  std::function<model::Result<model::Profile>(const std::string& name)> profile;     // neighbors and bases
};

// Steps that several recipes have in a row are those of steps/<name>.toml next to the recipe, which names them:
// steps = ["name", ...]. Input errors name file, line and key: unknown and missing keys, names of no such file, and a
// step that is neither fit nor neighbor.
model::Result<Recipe> load_recipe(const std::string& path);

// Makes profiles by the recipes of a data folder, each once: a recipe's neighbors are made before it.

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
