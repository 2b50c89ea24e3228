// What a whole run takes: phases, money rented and owned, energy, parts of the fabric. As text and for a web page.
#pragma once

#include <optional>
#include <string>

#include "model/result/result.h"

namespace plumbline::reports {

// Paragraphs and tables below a heading, for 80 columns.
std::string run_report(const model::RunCost& run);

// The body of the page's section.
std::string run_html(const model::RunCost& run);

// "from TDP, an upper estimate: 1,520 W per GPU with its share of host, network and building", or why nothing is known.
std::string energy_source(const model::RunCost& run);

// "2,048 NICs, 96 switches, 2,048 cables between switches, $11.2 M"; empty where a run needs no fabric.
std::string fabric_text(const model::FabricParts& parts, std::optional<double> usd);

}  // namespace plumbline::reports
