#include "real/executor/run.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "real/executor/agreement.h"
#include "real/executor/step/step_executor.h"
#include "real/executor/training/prefetch.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {
namespace {

using model::Result;

// Runs the steps of a rank whose peers are emulated: the same work in the same order as train(), with synthetic
// messages. Losses and norms are NaN, because they would be meaningless; seconds are the rank's own.
Result<TrainingResult> rehearse(TrainingStep& step, const TextSource& text, const TrainingOptions& options,
                                const StepObserver& observer) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  Prefetcher batches(text, step.places(), options.batch, 0, options.prefetch_thread);
  const double parts =
      static_cast<double>(options.batch.global_batch_size) / static_cast<double>(options.batch.micro_batch_size);
  TrainingResult result;
  while (result.progress.step < options.steps) {
    const auto micro_batches = TRY(batches.next());
    auto outcome = TRY(
        step.run(micro_batches,
                 {.step = result.progress.step + 1, .loss_scale = 1 / parts, .learning_rate = options.learning_rate}));
    ++result.progress.step;
    result.losses.push_back(unknown);
    result.gradient_norms.push_back(unknown);
    result.seconds.push_back(outcome.seconds);
    if (observer)
      observer({.step = result.progress.step,
                .loss = unknown,
                .gradient_norm = unknown,
                .seconds = outcome.seconds,
                .tokens_per_second = unknown});
    result.timeline = std::move(outcome.timeline);
    if (options.stopped && options.stopped()) break;
  }
  return result;
}

// Runs the steps and keeps their outcomes, because the median step is only known after all have run.
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
  static constexpr std::size_t most = 32;  // outcomes that are kept: the timelines of a long run would fill the memory
  TrainingStep& step_;
  std::vector<StepOutcome> outcomes_;
  std::size_t count_ = 0;
};

// Returns the index of the median kept step, without the very first step.
std::size_t median_step(const std::vector<double>& seconds, std::size_t first) {
  if (seconds.size() > 1) first = std::max<std::size_t>(first, 1);
  std::vector<std::size_t> order;
  for (std::size_t i = first; i < seconds.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return seconds[i]; });
  return order[(order.size() - 1) / 2];
}

class Rank {
 public:
  Rank(const RunInput& input, const RunOptions& options, Device& device, Communicator& communicator)
      : input_(input), options_(options), device_(device), communicator_(communicator) {}

  Result<RunResult> run(const StepObserver& observer) {
    auto layout = TRY(model::make_layout(input_.plan, input_.architecture));
    auto program = TRY(model::compile(input_.plan, input_.architecture, layout));
    auto step = TRY(make_step({&input_.plan, &input_.architecture, &layout, &program, &device_, &communicator_}));
    const auto text = make_text();
    const auto readable = text ? Result<void>() : tl::unexpected(text.error());
    TRY(options_.emulated ? readable : agree(communicator_, readable));
    RememberedSteps remembered(*step);
    auto training = TRY(options_.emulated ? rehearse(remembered, **text, training_options(), observer)
                                          : train(remembered, communicator_, **text, training_options(), observer));
    return measure(remembered, std::move(training), layout, program);
  }

 private:
  Result<std::unique_ptr<TextSource>> make_text() const {
    const TextOptions text{input_.architecture.vocabulary, input_.plan.batch.sequence_length};
    return options_.text.empty() ? synthetic_text(text) : file_text(options_.text, text);
  }

  TrainingOptions training_options() const {
    TrainingOptions training;
    training.steps = options_.steps;
    training.learning_rate = options_.learning_rate;
    training.batch = {input_.plan.batch.micro_batch_size, input_.plan.batch.global_batch_size};
    training.prefetch_thread = options_.prefetch_thread;
    training.fp16 = input_.plan.precision.gemm == model::Precision::fp16;
    training.layers = input_.architecture.layers;
    training.experts = input_.architecture.experts.routed_experts;
    training.balance_speed = options_.balance_speed;
    training.checkpoint.folder = options_.checkpoint;
    training.checkpoint.fingerprint = fingerprint();
    training.checkpoint_interval = options_.checkpoint_interval;
    training.resume = options_.resume;
    training.stopped = options_.stopped;
    return training;
  }

  // Returns the fingerprint of checkpoints: the plan, which names the model and its changed keys.
  std::string fingerprint() const { return model::to_toml(input_.plan); }

  // Returns all ranks' texts on the rank that returns the result.
  Result<std::vector<std::string>> gathered(const std::string& own) {
    if (options_.emulated) return std::vector{own};
    return communicator_.gather(own);
  }

  Result<RunResult> measure(const RememberedSteps& steps, TrainingResult training, const model::Layout& layout,
                            const model::StepProgram& program) {
    RunResult result;
    if (training.seconds.empty()) {
      result.training = std::move(training);
      return result;
    }
    const std::size_t chosen = median_step(training.seconds, steps.forgotten());
    const StepOutcome& outcome = steps.outcome(chosen);
    result.issue_seconds = outcome.issue_seconds;
    const auto texts =
        TRY(gathered(to_text({communicator_.rank(), outcome.timeline, outcome.class_seconds, device_.memory_bytes()})));
    const std::size_t first = training.seconds.size() > 1 ? 1 : 0;
    result.measured_seconds.assign(training.seconds.begin() + static_cast<std::ptrdiff_t>(first),
                                   training.seconds.end());
    if (!texts.empty()) {
      std::vector<RankMeasurement> ranks;
      for (const std::string& text : texts) {
        auto rank = TRY(rank_measurement(text));
        ranks.push_back(std::move(rank));
      }
      result.step = measured_step(input_.plan, input_.architecture, layout, program, input_.cluster, ranks,
                                  training.seconds[chosen]);
    }
    result.training = std::move(training);
    return result;
  }

  const RunInput& input_;
  const RunOptions& options_;
  Device& device_;
  Communicator& communicator_;
};

}  // namespace

Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, Device& device, Communicator& communicator,
                           const StepObserver& observer) {
  return Rank(input, options, device, communicator).run(observer);
}

}  // namespace plumbline::real
