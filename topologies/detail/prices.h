// The [price] and [power] of a topology file.
#pragma once

#include <string>

#include "model/base/parameter_file.h"
#include "model/economics/prices.h"
#include "topologies/detail/parameter_taker.h"

namespace plumbline::topologies {

struct Variation;

// Every entry may be left out. Errors are the taker's.
model::Prices take_prices(const model::ParameterFile& file, ParameterTaker& taker);

// Leaves out what is the price of something else than the plan wants: with another device rent, server and the host's
// power, with another rate rent and the parts of the fabric. The number of NICs changes the rent alone.
void vary(const Variation& variation, const std::string& device, double nic_gbps, model::Prices& prices);

}  // namespace plumbline::topologies
