#include "sim/predict/simulation.h"

#include <fmt/format.h>

namespace plumbline::sim {

std::string_view to_string(Fidelity fidelity) { return fidelity == Fidelity::closed_form ? "closed-form" : "step"; }

model::Result<Fidelity> parse_fidelity(std::string_view text) {
  for (Fidelity fidelity : {Fidelity::closed_form, Fidelity::step})
    if (text == to_string(fidelity)) return fidelity;
  return model::wrong_input("--fidelity", fmt::format("unknown fidelity '{}'", text), "known: closed-form, step");
}

}  // namespace plumbline::sim
