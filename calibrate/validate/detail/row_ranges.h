// What is likely of a compared row, by predictions and by a constant MFU, without the rows of its own set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/interval_score.h"
#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/interval/interval.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate::detail {

struct RowValues {
  sim::PeakOf peak = sim::PeakOf::device;  // what measured_bytes is of
  std::optional<double> measured_s = std::nullopt, measured_bytes = std::nullopt;
  std::optional<bool> ran = std::nullopt;
};

// Returns the ranges of a row but the baseline's, from the interval of its predicted result. Errors: those of
// sim::draw_interval().
model::Result<RowRanges> row_ranges(const sim::Inputs& inputs, const model::StepResult& result, const RowValues& row);

struct SetRow {
  std::string set;
  double predicted = 0, measured = 0;
};

// Returns the range of each row by the location and spread of ln(measured / predicted) on the other sets, each of which
// counts the same; nothing of a single set.
std::vector<PredictedRange> ranges_by_other_sets(const std::vector<SetRow>& rows);

}  // namespace plumbline::calibrate::detail
