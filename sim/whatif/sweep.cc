#include "sim/whatif/sweep.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "model/memory/memory.h"
#include "sim/interval/interval.h"
#include "sim/network/contention.h"
#include "sim/predict/memos.h"
#include "sim/predict/predicted_run.h"

namespace plumbline::sim {

namespace {

model::Result<SweepPoint> point_of(const Inputs& inputs, Fidelity fidelity, Predictor& predictor) {
  const model::Plan& plan = inputs.plan;
  auto estimate = TRY(fidelity == Fidelity::step ? predictor.events(plan) : predictor.closed_form(plan));
  auto limits = TRY(predictor.limits(plan, fidelity, estimate.step.time_s));
  SweepPoint point;
  point.bound_s = limits.bound_s;
  point.flops_at_peak_s = limits.flops_at_peak_s;
  point.warnings = std::move(limits.warnings);
  point.device = inputs.cluster.device.name;
  point.profile = inputs.profile.name();
  point.stack = inputs.profile.stack();
  point.peak_bytes = estimate.peak_bytes;
  point.capacity_bytes = inputs.cluster.device.memory.value();
  if (!estimate.fits) {
    const auto memory = TRY(predictor.memory(plan));
    point.infeasible_reason = model::infeasible_reason(memory);
  }
  point.run = predicted_run(inputs, plan, estimate.step);
  point.step = std::move(estimate.step);
  return point;
}

// Workers take the next point until none is left. After wrong input at a point, later points are not started but all
// earlier ones are, so the first wrong point is found with any number of threads.
class Pool {
 public:
  Pool(std::size_t points, const SweepInputs& inputs, const SweepOptions& options)
      : inputs_(inputs),
        options_(options),
        end_(points),
        predictors_(options.predictors ? options.predictors : std::make_shared<PredictorPool>()),
        results_(points) {}

  // Runs before any worker: SimGrid has one engine per process. Errors of a point are reported when it is evaluated.
  void tabulate_contention() {
    for (std::size_t point = 0; point < results_.size(); ++point) {
      model::Result<Inputs> inputs = inputs_(point);
      if (inputs) {
        inputs->routing = routing_;
        static_cast<void>(contention_->add(*inputs));
      }
      if (point < most_kept) kept_.push_back(std::move(inputs));
    }
  }

  void run() {
    tabulate_contention();
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    const std::size_t threads = std::min<std::size_t>(options_.threads > 0 ? options_.threads : cores, results_.size());
    std::vector<std::jthread> workers;
    for (std::size_t i = 1; i < threads; ++i) workers.emplace_back([this] { work(); });
    work();
  }

  model::Result<std::vector<model::Result<SweepPoint>>> take() {
    if (end_ < results_.size()) return tl::unexpected(results_[end_].error());
    return std::move(results_);
  }

 private:
  void work() {
    for (std::size_t point = next_++; point < end_; point = next_++) {
      results_[point] = evaluate(point);
      finished(point);
    }
  }

  model::Result<SweepPoint> evaluate(std::size_t point) {
    auto inputs = TRY(point < kept_.size() ? std::move(kept_[point]) : inputs_(point));
    inputs.routing = routing_;
    if (contention_->find(inputs) != nullptr) inputs.contention = contention_;
    auto found = TRY(predictors_->with(
        inputs, [&](Predictor& predictor) { return point_of(inputs, options_.fidelity, predictor); }));
    if (options_.intervals)
      found.interval = TRY(interval_of(inputs, step_result(found, options_.fidelity), {.threads = 1}));
    return found;
  }

  void finished(std::size_t point) {
    const std::scoped_lock lock(mutex_);
    const model::Result<SweepPoint>& result = results_[point];
    const bool wrong_input = !result && result.error().kind == model::ErrorKind::input;
    if (wrong_input) end_ = std::min<std::size_t>(end_, point);
    if (options_.on_progress) options_.on_progress(++done_, results_.size());
  }

  static constexpr std::size_t most_kept = 256;  // inputs take some 100 kB each

  const SweepInputs& inputs_;
  const SweepOptions& options_;
  std::vector<model::Result<Inputs>> kept_;  // of the first points, until they are evaluated
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> end_;  // the first point that is not evaluated
  std::size_t done_ = 0;
  std::mutex mutex_;
  std::shared_ptr<RoutingMemo> routing_ = std::make_shared<RoutingMemo>();
  std::shared_ptr<PredictorPool> predictors_;
  std::shared_ptr<ContentionTable> contention_ = std::make_shared<ContentionTable>();
  std::vector<model::Result<SweepPoint>> results_;
};

}  // namespace

model::StepResult step_result(const SweepPoint& point, Fidelity fidelity) {
  model::StepResult result;
  result.fidelity = to_string(fidelity);
  result.profile = point.profile;
  result.stack = point.stack;
  result.device = point.device;
  result.step = point.step;
  result.bound_s = point.bound_s;
  result.run = point.run;
  result.memory.peak_bytes = point.peak_bytes;
  result.memory.capacity_bytes = point.capacity_bytes;
  result.memory.fits = point.infeasible_reason.empty();
  return result;
}

model::Result<std::vector<model::Result<SweepPoint>>> sweep(std::size_t points, const SweepInputs& inputs,
                                                            const SweepOptions& options) {
  Pool pool(points, inputs, options);
  pool.run();
  return pool.take();
}

}  // namespace plumbline::sim
