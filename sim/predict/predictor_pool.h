// Predictors that several threads share, each used by one thread at a time. Points of a sweep, the top plans of a
// search and repeated what-ifs thus reuse what earlier ones have computed.
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

  // Returns use(predictor), with a predictor made for the inputs; their plan does not matter.
  template <class Use>
  auto with(const Inputs& inputs, const Use& use) {
    std::unique_ptr<Entry> entry = take(inputs);
    auto result = use(entry->predictor);
    give_back(std::move(entry));
    return result;
  }

 private:
  // Above this number of idle predictors, the one idle for longest is dropped.
  static constexpr std::size_t most_idle = 64;
  struct Entry {
    Inputs inputs;
    Predictor predictor;
  };
  std::unique_ptr<Entry> take(const Inputs& inputs);
  void give_back(std::unique_ptr<Entry> entry);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> idle_;
  std::shared_ptr<ExpertGroupMemo> routing_;  // for inputs without a memo of their own
  std::shared_ptr<ScheduleTables> tables_;    // the same
};

}  // namespace plumbline::sim
