// What a rank's parameters begin with.
#pragma once

#include <cstdint>
#include <string>

#include "real/executor/rank_state.h"

namespace plumbline::real {

// Makes the rank's part of each tensor of the undivided model (parameter_part.h): training begins with the same model
// however it is divided. Device idle.
void write_initial_parameters(RankState& rank);

// "layer 3 moe_layer/": before the names of a block's parameters, the same in every division.
std::string place_name(const StageState& stage, std::uint16_t position);

}  // namespace plumbline::real
