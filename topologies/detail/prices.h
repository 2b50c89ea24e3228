// Reads the [price] and [power] of a topology file.
#pragma once

#include "model/base/parameter_file.h"
#include "model/economics/prices.h"
#include "topologies/detail/parameter_taker.h"

namespace plumbline::topologies {

// Every entry may be missing. Errors are reported by the taker.
model::Prices take_prices(const model::ParameterFile& file, ParameterTaker& taker);

}  // namespace plumbline::topologies
