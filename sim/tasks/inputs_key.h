// All that decides a prediction, as bytes: what names work whose results are kept or shared.
#pragma once

#include <string>

#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns the bytes of the plan, the files that it names, the model, those that draft for it and reward it, the
// cluster, the constants and what is left, and of the engines of a plan with [rollout] all of these. Memos do not
// count. Equal bytes have equal predictions by the same program.
std::string bytes_of(const Inputs& inputs);

}  // namespace plumbline::sim
