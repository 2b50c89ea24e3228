#include <fmt/format.h>

#include <array>
#include <utility>

#include "calibrate/fit/profile_fit.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "calibrate/fit/recipe/profile_maker.h"
#include "model/cost/constants.h"

namespace plumbline::calibrate {
namespace {

model::Result<void> run_step(Draft& draft) {
  const std::string& fit = draft.step().fit;
#define FIT_STEP(name, run) \
  if (fit == #name) return run(draft);
#include "calibrate/fit/recipe/detail/fit_steps.def"
  return take_neighbor_step(draft);
}

// Adds the errors on rows that the fits did not use as the residual of each family that has a table or records.
void set_residuals(Draft& draft) {
  struct Residual {
    const char* family;  // how that of the rows begins
    model::CostFamily of;
  };
  constexpr std::array<Residual, 8> families = {{{"gemm", model::CostFamily::gemm},
                                                 {"decode gemm", model::CostFamily::small_gemm},
                                                 {"decode experts", model::CostFamily::small_grouped_gemm},
                                                 {"experts", model::CostFamily::grouped_gemm},
                                                 {"attention", model::CostFamily::attention},
                                                 {"decode_", model::CostFamily::cached_attention},
                                                 {"collectives", model::CostFamily::collective},
                                                 {"exchange", model::CostFamily::all_to_all}}};
  const auto set = [&](model::CostFamily family, const std::vector<double>& errors, const std::string& rows) {
    if (errors.empty()) return;
    draft.set(fmt::format("residual.{}", to_string(family)), deviation_of(errors), "1", std::nullopt,
              model::Evidence::measured, fmt::format("80 % of {} {} are within 1.28 deviations", errors.size(), rows));
  };
  for (const auto& [family, of] : families) {
    std::vector<double> errors;
    for (const HeldOut& table : draft.held_out)
      if (table.family.starts_with(family)) errors.insert(errors.end(), table.large.begin(), table.large.end());
    set(of, errors,
        fmt::format("rows of {} that no fit used (calibrate/published/components/{})",
                    of == model::CostFamily::collective              ? "4 MiB and more"
                    : std::string_view(family).starts_with("decode") ? "few tokens"
                                                                     : "1,024 tokens and more",
                    draft.recipe().tables));
  }
  set(model::CostFamily::memory_bound, draft.memory_records,
      fmt::format("records of calibrate/measured/{}, each by the others of its operator", draft.recipe().measured));
}

}  // namespace

model::Result<MadeProfile> make_profile(const Recipe& recipe, const RecipeInputs& inputs) {
  auto draft = TRY(Draft::begin(recipe, inputs));
  for (const RecipeStep& step : recipe.steps) {
    draft.at(&step);
    TRY(run_step(draft));
  }
  draft.at(nullptr);
  set_residuals(draft);
  MadeProfile made;
  made.constants = draft.constants();
  made.fits = draft.fits();
  std::vector<std::string> about = recipe.about;
  about.push_back(fmt::format(
      "Made by `plumbline calibrate --profile {0}` from calibrate/recipes/{0}.toml: change that.", recipe.name));
  made.text =
      profile_text({recipe.name, recipe.description, recipe.extends, recipe.devices, recipe.stack, std::move(about)},
                   made.constants, made.fits);
  made.held_out = std::move(draft.held_out);
  made.notes = std::move(draft.notes);
  return made;
}

}  // namespace plumbline::calibrate
