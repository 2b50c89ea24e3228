// Memory of the ranks in a terminal: lines of at most 100 columns.
#pragma once

#include <string>

#include "model/memory/memory.h"
#include "model/memory/memory_change.h"
#include "reports/charts/line_chart.h"
#include "reports/text/table.h"

namespace plumbline::reports {

// Returns the table of ranks (of more than 16 those with the highest peaks) and the verdict. What is free and the
// margin are left when allocators have returned all that they can.
std::string memory_summary(const model::Memory& memory, Style style = {});

// Returns one rank over the step as stacked columns of letters, each the moment of highest use of its ops. The capacity
// is a dashed line, and the legend explains the letters.
std::string memory_plot(const model::RankLevels& levels, double capacity_bytes, Style style = {});

// Returns the changes that would make the plan fit with what they cost, or the one that comes closest.
std::string memory_advice(const model::MemoryAdvice& advice, double capacity_bytes, Style style = {});

// Returns one rank over the step as lines.
LineChart memory_chart(const model::RankLevels& levels, double capacity_bytes, const std::string& model);

}  // namespace plumbline::reports
