// Predictors that several threads share, a thread at a time each, so that points of a sweep, the top plans of a search
// and repeated what-ifs find what earlier ones have computed.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/predict/inputs.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {

// Safe to use from several threads.
class PredictorPool {
 public:
  PredictorPool();

  // use(predictor) with a predictor of the inputs; their plan does not matter.
  template <class Use>
  auto with(const Inputs& inputs, const Use& use) {
    std::unique_ptr<Entry> entry = take(inputs);
    auto result = use(entry->predictor);
    give_back(std::move(entry));
    return result;
  }

 private:
  // With more idle predictors than this the one that has been idle for longest is forgotten.
  static constexpr std::size_t most_idle = 64;
  struct Entry {
    Inputs inputs;
    Predictor predictor;
  };
  std::unique_ptr<Entry> take(const Inputs& inputs);
  void give_back(std::unique_ptr<Entry> entry);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> idle_;
  std::shared_ptr<RoutingMemo> routing_;    // of inputs that have none
  std::shared_ptr<ScheduleTables> tables_;  // the same
};

}  // namespace plumbline::sim
