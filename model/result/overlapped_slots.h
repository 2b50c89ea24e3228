// The overlapped pairs of a predicted step beside those of the measured one, from their timelines: what they take, and
// what the phases and operators in them take.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/result/prediction_error.h"
#include "model/result/timeline.h"

namespace plumbline::model {

struct OverlappedSlots {
  std::int64_t rank = 0;       // pipeline rank whose slots these are
  PredictionRow each;          // the mean of all pairs
  std::vector<double> errors;  // of every pair, predicted over measured, less one; ascending
  // Parts of a pair, the mean of all; they run beside each other.
  std::vector<PredictionRow> phases;
  // Operators by name, of the pairs that are like the one whose kernels the prediction shows; empty where a timeline
  // shows none.
  std::vector<PredictionRow> kernels;

  double median_error() const;
};

// Of the lowest rank that the measured timeline has. Nothing where one has no pairs, or the two have different numbers
// of them.
std::optional<OverlappedSlots> overlapped_slots(const Timeline& predicted, const Timeline& measured);

// Rows of the same group as one, in the order of the groups' first rows; a row without a group is left out.
std::vector<PredictionRow> grouped(const std::vector<PredictionRow>& rows,
                                   const std::map<std::string, std::string>& groups);

}  // namespace plumbline::model
