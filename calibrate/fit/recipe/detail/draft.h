// A profile while a recipe makes it: its own constants over those of the profile that it extends.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/detail/constant_list.h"
#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/held_out.h"
#include "calibrate/fit/profile_fit.h"
#include "calibrate/fit/recipe/profile_maker.h"
#include "calibrate/measurement/measurement.h"
#include "model/cost/forms/kernel_forms.h"
#include "model/profile/profile.h"
#include "topologies/topology.h"

namespace plumbline::calibrate {

class Draft {
 public:
  // Reads the base, the device and the stated constants.
  static model::Result<Draft> begin(const Recipe& recipe, const RecipeInputs& inputs);

  // Adds a value in SI, written in `unit` with four digits, in place of a constant of that name. An uncertainty that is
  // not finite, or not given, is not written; of a step that states a least uncertainty it is at least that.
  void set(const std::string& name, double si, const std::string& unit, std::optional<double> uncertainty,
           model::Evidence kind, const std::string& source);
  void set(model::Parameter parameter);
  void set(const std::vector<Fitted>& constants, const std::string& how,
           model::Evidence kind = model::Evidence::fitted);

  // States that the constants come of one fit: the standard deviations of their logarithms, and the correlations. What
  // a constant is more uncertain than that is its own.
  void correlate(const std::vector<Fitted>& constants, const std::vector<std::vector<double>>& correlation);
  // What an error is made of: independent numbers of variance 1 by name, with weights whose squares add up to 1.
  using Errors = std::map<std::string, double>;
  const Errors& errors_of(const std::string& name) const { return errors_.at(name); }  // of a constant that was set
  // States that the error of a constant is another's, whose relative uncertainty is given, and that what it is more
  // uncertain is shared by all that share the other's error and `why`.
  void share(const std::string& name, const Errors& other, std::optional<double> uncertainty, const std::string& why);
  // States that the error of a constant is nothing else than that.
  void share(const std::string& name, Errors whole) { errors_.insert_or_assign(name, std::move(whole)); }

  // Returns the constant as made so far or as in the base; device figures are "device.<name>". Also known is
  // derived.attention_pair, the seconds of a (query, key) pair at head dimension 128 forward.
  std::optional<double> si(const std::string& name) const;
  const model::Parameter* find(const std::string& name) const;

  // Returns an error about a key of the step.
  model::Failure wrong(const std::string& key, const std::string& message, const std::string& hint = "") const;
  void at(const RecipeStep* step) { step_ = step; }  // null: after all steps

  const Recipe& recipe() const { return *recipe_; }
  const RecipeStep& step() const { return *step_; }
  const RecipeInputs& inputs() const { return *inputs_; }
  // Datasheet figures; link rates as the constants made so far state them.
  FitMachine machine() const;
  // Returns the path of a component table of the step, or else of the recipe, and how sources name it.
  std::string table(const std::string& name) const;
  std::string cited(const std::string& name) const;
  // Reads the recipe's own records once; sorted, they are those that every fit to records takes, with its times.
  model::Result<const Measurements*> measured();
  model::Result<const FitRecords*> records();

  std::vector<model::Parameter> constants() const;
  // Returns the constants whose errors are not independent, in groups.
  std::vector<model::ConstantFit> fits() const;

  std::vector<HeldOut> held_out;
  std::vector<double>
      memory_records;              // ln(measured / predicted) of records of memory-bound kernels, each by the others
  std::vector<std::string> notes;  // sentences: what differs between sources

 private:
  const std::string& tables() const;  // the folder of the step's tables, or else of the recipe's

  const Recipe* recipe_ = nullptr;
  const RecipeInputs* inputs_ = nullptr;
  const RecipeStep* step_ = nullptr;
  model::Profile base_;
  model::Device device_;
  std::vector<model::Parameter> figures_;  // of the device file
  std::map<std::string, model::Parameter> own_;
  std::map<std::string, Errors> errors_;      // by constant
  std::map<std::string, std::size_t> order_;  // of constants, by their last call of set()
  std::size_t settings_ = 0;                  // calls of set()
  std::vector<Measurements> measured_;        // one file, or none before it is read
  std::optional<FitRecords> records_;         // of that file
};

// Returns the constants of a kind of GEMMs as made so far, in SI; nullopt without its k_time and tile.
std::optional<model::GemmConstants> gemm_constants(const Draft& draft, const std::string& kind);

// Returns the seconds of a (query, key) pair at head dimension 128 of causal attention forward; nullopt without
// attention.forward_rate. `find` returns constants in SI.
template <class Find>
std::optional<double> attention_pair(const Find& find) {
  constexpr double dims = 256;
  const std::optional<double> rate = find("attention.forward_rate");
  if (!rate) return std::nullopt;
  return find("attention.forward.pair_time").value_or(0) + 2 * dims / *rate;
}

// The steps: each adds its constants and errors to the draft.
#define FIT_STEP(name, run) model::Result<void> run(Draft& draft);
#include "calibrate/fit/recipe/detail/fit_steps.def"
model::Result<void> take_neighbor_step(Draft& draft);

}  // namespace plumbline::calibrate
