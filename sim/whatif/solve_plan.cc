#include "sim/whatif/solve_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "sim/predict/predictor_pool.h"

namespace plumbline::sim {
namespace {

using model::Result;

std::string change_of(const SolveKey& key, double x) {
  return key.whole ? fmt::format("{}={}", key.key, std::llround(x)) : fmt::format("{}={}", key.key, x);
}

// Simulates values of the key and keeps the points.
class Evaluation {
 public:
  Evaluation(const ChangedInputs& changed, SolveResult& result) : changed_(changed), result_(result) {}

  Result<std::vector<Result<SweepPoint>>> points(std::size_t count, const SweepInputs& inputs) const {
    return sweep(count, inputs, {.fidelity = result_.fidelity, .predictors = predictors_});
  }

  Result<std::vector<std::optional<double>>> operator()(const std::vector<double>& xs) {
    auto points =
        this->points(xs.size(), [&](std::size_t point) { return changed_({change_of(result_.key, xs[point])}); });
    if (!points) return tl::unexpected(points.error());
    std::vector<std::optional<double>> values;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      values.push_back((*points)[i] ? metric(*(*points)[i]) : std::nullopt);
      if ((*points)[i]) result_.points.emplace(xs[i], std::move(*(*points)[i]));
    }
    return values;
  }

  std::optional<double> metric(const SweepPoint& point) const {
    return result_.target.read(step_result(point, result_.fidelity));
  }

 private:
  const ChangedInputs& changed_;
  SolveResult& result_;
  std::shared_ptr<PredictorPool> predictors_ = std::make_shared<PredictorPool>();
};

// Simulates the plan as it is. A metric that its result lacks can never be reached.
Result<void> add_present(const ChangedInputs& changed, const Evaluation& evaluation, SolveResult& result) {
  auto points = evaluation.points(1, [&](std::size_t) { return changed({}); });
  if (!points) return tl::unexpected(points.error());
  if (!points->front()) return {};
  result.present = evaluation.metric(*points->front());
  if (result.present) {
    if (result.key.value) result.points.emplace(*result.key.value, std::move(*points->front()));
    return {};
  }
  const bool of_run = result.target.metric.find("run.") != std::string::npos;
  return model::wrong_input_at(
      "--for", 0, result.target.metric, "the prediction of this plan does not give it",
      of_run ? "add run.tokens to the plan, or --set run.tokens=..."
             : fmt::format("what fidelity {} gives is in its --json", to_string(result.fidelity)));
}

}  // namespace

Result<SolveResult> solve(const std::string& key, const std::optional<std::string>& over, SolveTarget target,
                          const ChangedInputs& changed, Fidelity fidelity) {
  const auto inputs = TRY(changed({}));
  auto known = TRY(solve_key(key, inputs, over));
  SolveResult result{inputs.plan, fidelity, std::move(known), std::move(target), {}, {}, {}};
  Evaluation evaluation(changed, result);
  TRY(add_present(changed, evaluation, result));
  const double near = result.key.value.value_or(result.key.range.low);
  result.solution = TRY(solve(result.key.range, result.target.value, near, std::ref(evaluation)));
  return result;
}

}  // namespace plumbline::sim
