#include <fmt/format.h>

#include <array>
#include <utility>

#include "calibrate/fit/profile_fit.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "calibrate/fit/recipe/profile_maker.h"

namespace plumbline::calibrate {
namespace {

struct StepKind {
  std::string_view fit;
  model::Result<void> (*run)(Draft& draft);
};

constexpr std::array<StepKind, 11> step_kinds = {{{"gemm", fit_gemm_step},
                                                  {"experts", fit_expert_step},
                                                  {"attention", fit_attention_step},
                                                  {"collectives", fit_collective_step},
                                                  {"exchange", fit_exchange_step},
                                                  {"tray", fit_tray_step},

                                                  {"power", fit_power_step},
                                                  {"attention_backward", fit_attention_backward_step},
                                                  {"weight_gradient", fit_weight_gradient_step},
                                                  {"memory", fit_memory_step},
                                                  {"launch_gap", fit_launch_gap_step}}};

model::Result<void> run_step(Draft& draft) {
  for (const StepKind& kind : step_kinds)
    if (kind.fit == draft.step().fit) return kind.run(draft);
  return take_neighbor_step(draft);
}

}  // namespace

model::Result<MadeProfile> make_profile(const Recipe& recipe, const RecipeInputs& inputs) {
  auto draft = TRY(Draft::begin(recipe, inputs));
  for (const RecipeStep& step : recipe.steps) {
    draft.at(step);
    TRY(run_step(draft));
  }
  MadeProfile made;
  made.constants = draft.constants();
  std::vector<std::string> about = recipe.about;
  about.push_back(fmt::format(
      "Made by `plumbline calibrate --profile {0}` from calibrate/recipes/{0}.toml: change that.", recipe.name));
  made.text =
      profile_text({recipe.name, recipe.description, recipe.extends, recipe.devices, std::move(about)}, made.constants);
  made.held_out = std::move(draft.held_out);
  made.notes = std::move(draft.notes);
  return made;
}

}  // namespace plumbline::calibrate
