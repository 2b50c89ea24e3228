#include "sim/predict/predictor_pool.h"

#include <algorithm>

#include "sim/predict/memos.h"

namespace plumbline::sim {
namespace {

// Returns whether both inputs give the same predictions for every plan.
bool same_predictions(const Inputs& a, const Inputs& b) {
  return a.every_link == b.every_link && a.power_exponent == b.power_exponent && a.contention == b.contention &&
         a.fabric == b.fabric && a.architecture == b.architecture && a.cluster == b.cluster && a.profile == b.profile;
}

}  // namespace

PredictorPool::PredictorPool()
    : routing_(std::make_shared<ExpertGroupMemo>()), tables_(std::make_shared<ScheduleTables>()) {}

std::unique_ptr<PredictorPool::Entry> PredictorPool::take(const Inputs& inputs) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(
        idle_, [&](const std::unique_ptr<Entry>& one) { return same_predictions(one->inputs, inputs); });
    if (found != idle_.end()) {
      std::unique_ptr<Entry> entry = std::move(*found);
      idle_.erase(found);
      return entry;
    }
  }
  Inputs shared = inputs;
  if (!shared.routing) shared.routing = routing_;
  if (!shared.tables) shared.tables = tables_;
  return std::make_unique<Entry>(Entry{inputs, Predictor(std::move(shared))});
}

void PredictorPool::give_back(std::unique_ptr<Entry> entry) {
  const std::scoped_lock lock(mutex_);
  if (idle_.size() == most_idle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(entry));
}

}  // namespace plumbline::sim
