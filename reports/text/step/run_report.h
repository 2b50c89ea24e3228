// The cost of a whole run as text: phases, rented and owned price, energy, parts of the fabric.
#pragma once

#include <optional>
#include <string>

#include "model/result/result.h"

namespace plumbline::reports {

// Returns paragraphs and tables below a heading, for 80 columns.
std::string run_report(const model::RunCost& run);

// Returns "from TDP, an upper estimate: 1,520 W a GPU with its share of host, network and building", or "from the
// step's power: ...", or why the energy is unknown.
std::string energy_source(const model::RunCost& run);

// Returns "2,048 NICs, 96 switches, 2,048 cables between switches, $11.2 M"; empty when a run needs no fabric.
std::string fabric_text(const model::FabricParts& parts, std::optional<double> usd);

}  // namespace plumbline::reports
