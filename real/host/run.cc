#include "real/host/run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "model/layout.h"
#include "model/program.h"
#include "real/executor/agreement.h"
#include "real/executor/step_executor.h"
#include "real/host/communicator.h"

namespace plumbline::real::host {

namespace {

using model::Result;

// Steps as they are, remembered: the one that counts is known when all have run.
class RememberedSteps final : public TrainingStep {
 public:
  explicit RememberedSteps(TrainingStep& step) : step_(step) {}

  std::vector<MicroBatchPlace> places() const override { return step_.places(); }
  Result<StepOutcome> run(const std::vector<MicroBatch>& batches, const StepNumbers& numbers) override {
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

// Of the steps that were remembered, the one in the middle, the first of all left out.
std::size_t median_step(const std::vector<double>& seconds, std::size_t first) {
  if (seconds.size() > 1) first = std::max<std::size_t>(first, 1);
  std::vector<std::size_t> order;
  for (std::size_t i = first; i < seconds.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return seconds[i]; });
  return order[(order.size() - 1) / 2];
}

class Rank {
 public:
  Rank(const RunInput& input, const RunOptions& options, Transport& transport)
      : input_(input),
        options_(options),
        device_(options.device),
        communicator_(make_communicator(device_, transport)) {}

  Result<RunResult> run(const StepObserver& observer) {
    auto layout = model::make_layout(input_.plan, input_.architecture);
    if (!layout) return tl::unexpected(layout.error());
    auto program = model::compile(input_.plan, input_.architecture, *layout);
    if (!program) return tl::unexpected(program.error());
    auto step = make_step({&input_.plan, &input_.architecture, &*layout, &*program, &device_, communicator_.get()});
    if (!step) return tl::unexpected(step.error());
    const auto text = make_text();
    const auto readable = text ? Result<void>() : tl::unexpected(text.error());
    if (auto agreed = agree(*communicator_, readable); !agreed) return tl::unexpected(agreed.error());
    RememberedSteps remembered(**step);
    auto training = train(remembered, *communicator_, **text, training_options(), observer);
    if (!training) return tl::unexpected(training.error());
    return measure(remembered, std::move(*training), *layout, *program);
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
    training.prefetch_thread = options_.device.threads;
    training.fp16 = input_.plan.precision.gemm == model::Precision::fp16;
    training.layers = input_.architecture.layers;
    training.experts = input_.architecture.experts.routed_experts;
    training.balance_speed = options_.balance_speed;
    training.checkpoint.folder = options_.checkpoint;
    training.checkpoint.fingerprint = fingerprint();
    training.checkpoint_interval = options_.checkpoint_interval;
    training.resume = options_.resume;
    return training;
  }

  // What a checkpoint must have been made by: the plan, which names the model and its changed keys.
  std::string fingerprint() const { return model::to_toml(input_.plan); }

  Result<RunResult> measure(const RememberedSteps& steps, TrainingResult training, const model::Layout& layout,
                            const model::StepProgram& program) {
    RunResult result;
    if (training.seconds.empty()) {
      result.training = std::move(training);
      return result;
    }
    const std::size_t chosen = median_step(training.seconds, steps.forgotten());
    const StepOutcome& outcome = steps.outcome(chosen);
    const auto texts = communicator_->gather(to_text({communicator_->rank(), outcome.timeline, outcome.class_seconds}));
    if (!texts) return tl::unexpected(texts.error());
    const std::size_t first = training.seconds.size() > 1 ? 1 : 0;
    result.measured_seconds.assign(training.seconds.begin() + static_cast<std::ptrdiff_t>(first),
                                   training.seconds.end());
    if (communicator_->rank() == 0) {
      std::vector<RankMeasurement> ranks;
      for (const std::string& text : *texts) {
        auto rank = rank_measurement(text);
        if (!rank) return tl::unexpected(rank.error());
        ranks.push_back(std::move(*rank));
      }
      result.step = measured_step(input_.plan, input_.architecture, layout, program, input_.cluster, ranks,
                                  training.seconds[chosen]);
    }
    result.training = std::move(training);
    return result;
  }

  const RunInput& input_;
  const RunOptions& options_;
  HostDevice device_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace

Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, Transport& transport,
                           const StepObserver& observer) {
  return Rank(input, options, transport).run(observer);
}

Result<RunResult> run_in_process(const RunInput& input, const RunOptions& options, const StepObserver& observer) {
  const auto transports = in_process_transports(static_cast<std::int32_t>(input.plan.cluster.gpus));
  std::vector<Result<RunResult>> results(transports.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 1; rank < transports.size(); ++rank)
      threads.emplace_back([&, rank] { results[rank] = run_rank(input, options, *transports[rank], {}); });
    results[0] = run_rank(input, options, *transports[0], observer);
  }
  // The rank that failed first knows why; the others were only told.
  for (Result<RunResult>& result : results)
    if (!result && !result.error().key.empty()) return std::move(result);
  for (Result<RunResult>& result : results)
    if (!result) return std::move(result);
  return std::move(results[0]);
}

}  // namespace plumbline::real::host
