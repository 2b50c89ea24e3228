// Computes the error of a predicted step against the measured one, slot by slot and class by class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/result/result.h"
#include "model/result/waterfall.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

// Returns predicted over measured, minus one; nothing where a time is missing or the measured one is not positive.
inline std::optional<double> relative_error(std::optional<double> predicted, std::optional<double> measured) {
  if (!predicted || !measured || *measured <= 0) return std::nullopt;
  return *predicted / *measured - 1;
}

// A predicted and the measured time of the same thing.
struct ComparedTime {
  std::string name;                               // "F", "attn(F)", "GEMM", "q_b"
  std::optional<double> predicted_s, measured_s;  // missing on the side that does not have it
  std::string kind = {};                          // kind of GEMM: fprop, dgrad, wgrad, recompute
  std::int32_t slot = -1;                         // pair of layers of a phase or period
  bool same_work = true;                          // else the times are not comparable

  std::optional<double> error() const { return same_work ? relative_error(predicted_s, measured_s) : std::nullopt; }
};

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
