// Computes the error of a predicted step against the measured one, slot by slot and class by class.
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
  ComparedTime each, together;  // the mean of `count` slots, and their sum
};

// Times of rank 0. `parts` (slots by kind, bubble, optimizer) and `classes` (rows of a waterfall) add up to the step.
struct PredictionError {
  ComparedTime step;
  std::vector<SlotPrediction> slots;  // empty where the slots differ, or one step lacks them
  std::vector<ComparedTime> parts;    // empty where `slots` is
  std::vector<ComparedTime> classes;
  // Returns a row's share of step.error(): the row's difference over the measured step.
  double contribution(const ComparedTime& row) const;
};

PredictionError prediction_error(const StepTimes& predicted, const StepTimes& measured,
                                 WaterfallDetail detail = WaterfallDetail::categories);

}  // namespace plumbline::model
