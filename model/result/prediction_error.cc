#include "model/result/prediction_error.h"

#include <algorithm>
#include <utility>

namespace plumbline::model {
namespace {

bool same_slots(const StepTimes& predicted, const StepTimes& measured) {
  const bool any = std::ranges::any_of(measured.slot_counts, [](std::int64_t count) { return count > 0; });
  return any && predicted.slot_counts == measured.slot_counts;
}

std::vector<SlotPrediction> slots_of(const StepTimes& predicted, const StepTimes& measured) {
  std::vector<SlotPrediction> slots;
  for (std::size_t i = 0; i < measured.slot_counts.size(); ++i) {
    const std::int64_t count = measured.slot_counts[i];
    if (count == 0) continue;
    const auto kind = static_cast<OpType>(i);
    ComparedTime together{std::string(to_string(kind)), predicted.slots_s[i].value_or(0),
                          measured.slots_s[i].value_or(0)};
    ComparedTime each = together;
    *each.predicted_s /= static_cast<double>(count);
    *each.measured_s /= static_cast<double>(count);
    slots.push_back({kind, count, std::move(each), std::move(together)});
  }
  return slots;
}

}  // namespace

double PredictionError::contribution(const ComparedTime& row) const {
  return (row.predicted_s.value_or(0) - row.measured_s.value_or(0)) / step.measured_s.value_or(0);
}

PredictionError prediction_error(const StepTimes& predicted, const StepTimes& measured, WaterfallDetail detail) {
  PredictionError error;
  error.step = {"step", predicted.time_s, measured.time_s};
  for (const WaterfallRow& row : waterfall(predicted, measured, detail).rows)
    error.classes.push_back({row.name, row.from_s, row.to_s});
  if (!same_slots(predicted, measured)) return error;
  error.slots = slots_of(predicted, measured);
  for (const SlotPrediction& slot : error.slots) error.parts.push_back(slot.together);
  error.parts.push_back({"bubble", predicted.bubble_s.value_or(0), measured.bubble_s.value_or(0)});
  error.parts.push_back({"optimizer", predicted.optimizer_s.value_or(0), measured.optimizer_s.value_or(0)});
  return error;
}

}  // namespace plumbline::model
