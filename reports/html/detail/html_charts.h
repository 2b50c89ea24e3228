// Bars of the page, as HTML elements whose widths are percentages, so that text keeps its size on any screen.
#pragma once

#include <string>

#include "model/result/result.h"

namespace plumbline::reports {

std::string slot_bar(const model::StepTimes& step);         // one stacked bar: rank 0's step, with a legend
std::string breakdown_bars(const model::StepTimes& step);   // one bar per operator class
std::string memory_bars(const model::Memory& memory);       // one stacked bar per rank, a line at the capacity
std::string interval_bar(const model::StepResult& result);  // eight of ten cases, middle, prediction, bound
std::string part_bars(const model::PredictionInterval& interval);
std::string wait_bars(const model::ClusterSpread& cluster);  // one bar per pipeline rank: what its GPUs wait
std::string legend_item(const std::string& css_class, const std::string& text);

}  // namespace plumbline::reports
