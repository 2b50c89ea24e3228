// The interval of a prediction as sentences and tables.
#pragma once

#include <string>

#include "model/result/prediction_interval.h"

namespace plumbline::reports {

// Returns "18.14 to 21.42 s", or "18.14 ms to 2.100 s": the unit once where both have the same.
std::string from_to(const std::string& low, const std::string& high);
std::string seconds_span(const model::Quantiles& quantiles);  // the same of step times
std::string plus_minus(double half_width);                    // "±8.5 %"

// Returns "Measured steps took 1.07 times what is predicted (531 steps of 5 sets)."; "" where nothing is left.
std::string left_sentence(const model::PredictionInterval& interval);
// Returns "61.2 to 66.0 GB in eight of ten cases; it fits in 99.8 % of all."
std::string memory_sentence(const model::PredictionInterval& interval);

// Returns the run's days, GPU-hours and cost as rows of a table; "" without them.
std::string run_interval_table(const model::PredictionInterval& interval);
// Returns where the uncertainty comes from and what would narrow it.
std::string parts_section(const model::PredictionInterval& interval);

}  // namespace plumbline::reports
