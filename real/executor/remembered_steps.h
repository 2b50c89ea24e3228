// Steps as they are, remembered: the one that counts is known when all have run.
#pragma once

#include <cstddef>
#include <vector>

#include "real/executor/training_step.h"

namespace plumbline::real {

class RememberedSteps final : public TrainingStep {
 public:
  explicit RememberedSteps(TrainingStep& step) : step_(step) {}

  std::vector<MicroBatchPlace> places() const override { return step_.places(); }
  model::Result<StepOutcome> run(const std::vector<MicroBatch>& batches, const StepNumbers& numbers) override {
    auto outcome = step_.run(batches, numbers);
    if (outcome) {
      if (outcomes_.size() == most) outcomes_.erase(outcomes_.begin());
      outcomes_.push_back(*outcome);
      ++count_;
    }
    return outcome;
  }
  std::vector<StatePiece> state() override { return step_.state(); }
  Device& device() override { return step_.device(); }
  std::vector<float> router_bias(std::int64_t layer) override { return step_.router_bias(layer); }
  void set_router_bias(std::int64_t layer, const std::vector<float>& bias) override {
    step_.set_router_bias(layer, bias);
  }

  std::size_t forgotten() const { return count_ - outcomes_.size(); }
  const StepOutcome& outcome(std::size_t step) const { return outcomes_[step - forgotten()]; }

 private:
  static constexpr std::size_t most = 32;  // timelines of later steps are enough for a long run
  TrainingStep& step_;
  std::vector<StepOutcome> outcomes_;
  std::size_t count_ = 0;
};

}  // namespace plumbline::real
