// A predicted step beside the measured one: where they differ, slot by slot and class by class.
#pragma once

#include <cstdint>
#include <vector>

#include "model/result/compared_time.h"
#include "model/result/result.h"
#include "model/result/waterfall.h"

namespace plumbline::model {

struct SlotPrediction {
  OpType kind = OpType::F;
  std::int64_t count = 0;
  ComparedTime each, together;  // one slot, the mean of `count`; all of them
};

// All of rank 0. `parts` (slots by kind, bubble, optimizer) and `classes` (the rows of a waterfall) add up to the step.
struct PredictionError {
  ComparedTime step;
  std::vector<SlotPrediction> slots;  // empty where the steps have other slots, or one does not say them
  std::vector<ComparedTime> parts;    // empty where `slots` is
  std::vector<ComparedTime> classes;
  // What a row adds to the step's error: shares of the measured step that add up to step.error().
  double contribution(const ComparedTime& row) const;
};

PredictionError prediction_error(const StepTimes& predicted, const StepTimes& measured,
                                 WaterfallDetail detail = WaterfallDetail::categories);

}  // namespace plumbline::model
