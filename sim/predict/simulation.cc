#include "sim/predict/simulation.h"

#include <fmt/format.h>

namespace plumbline::sim {

std::string_view to_string(Fidelity fidelity) {
  if (fidelity == Fidelity::closed_form) return "closed-form";
  return fidelity == Fidelity::step ? "step" : "cluster";
}

model::Result<Fidelity> parse_fidelity(std::string_view text) {
  for (Fidelity fidelity : {Fidelity::closed_form, Fidelity::step, Fidelity::cluster})
    if (text == to_string(fidelity)) return fidelity;
  return model::wrong_input("--fidelity", fmt::format("unknown fidelity '{}'", text),
                            model::known_names(text, {"closed-form", "step", "cluster"}));
}

}  // namespace plumbline::sim
