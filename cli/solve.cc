#include "cli/solve.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "calibrate/validate/metric.h"
#include "cli/decimal.h"
#include "cli/output.h"
#include "cli/sweep_arguments.h"
#include "reports/text/describe.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

constexpr int infeasible_exit = 2;

// Simulates values of the key and keeps the points.
class Evaluation {
 public:
  Evaluation(const SweepArguments& arguments, SolveResult& result) : arguments_(arguments), result_(result) {}

  Result<std::vector<std::optional<double>>> operator()(const std::vector<double>& xs) {
    const auto inputs = [&](std::size_t point) {
      return inputs_with(arguments_, {override_of(result_.key, xs[point])});
    };
    auto points = sim::sweep(xs.size(), inputs, {.fidelity = result_.fidelity, .predictors = predictors_});
    if (!points) return tl::unexpected(points.error());
    std::vector<std::optional<double>> values;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      values.push_back((*points)[i] ? metric(*(*points)[i]) : std::nullopt);
      if ((*points)[i]) result_.points.emplace(xs[i], std::move(*(*points)[i]));
    }
    return values;
  }

  std::optional<double> metric(const sim::SweepPoint& point) const {
    return calibrate::metric_value(result_.target.metric, sim::step_result(point, result_.fidelity));
  }

 private:
  const SweepArguments& arguments_;
  SolveResult& result_;
  std::shared_ptr<sim::PredictorPool> predictors_ = std::make_shared<sim::PredictorPool>();
};

// Simulates the plan as it is. A metric that its result lacks can never be reached.
Result<void> add_present(const SweepArguments& arguments, const Evaluation& evaluation, SolveResult& result) {
  auto points = sim::sweep(1, [&](std::size_t) { return inputs_with(arguments, {}); }, {.fidelity = result.fidelity});
  if (!points) return tl::unexpected(points.error());
  if (!points->front()) return {};
  result.present = evaluation.metric(*points->front());
  if (result.present) {
    if (result.key.value) result.points.emplace(*result.key.value, std::move(*points->front()));
    return {};
  }
  const bool of_run = result.target.metric.find("run.") != std::string::npos;
  return tl::unexpected(
      Error{ErrorKind::input, "the prediction of this plan does not give it", "--for", 0, result.target.metric,
            of_run ? "add run.tokens to the plan, or --set run.tokens=..."
                   : fmt::format("what fidelity {} gives is in its --json", sim::to_string(result.fidelity))});
}

Result<std::optional<std::string>> only_range(const SweepArguments& arguments) {
  if (arguments.over.empty()) return std::nullopt;
  if (arguments.over.size() == 1) return arguments.over.front();
  return tl::unexpected(Error{ErrorKind::input, "one key is solved for", "", 0, "--over", "give its range alone"});
}

}  // namespace

Result<SolveTarget> parse_target(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  const auto number = equals == std::string_view::npos ? std::nullopt : parse_decimal(text.substr(equals + 1));
  if (!number)
    return tl::unexpected(Error{ErrorKind::input, fmt::format("expected METRIC=VALUE, found '{}'", text), "", 0,
                                "--for", "for example step.time_s=15"});
  SolveTarget target{std::string(text.substr(0, equals)), number->value()};
  if (const auto known = calibrate::check_metric(target.metric); !known) {
    Error error = known.error();
    error.key = "--for";
    return tl::unexpected(error);
  }
  return target;
}

Result<int> run_solve(const SweepArguments& arguments, sim::Fidelity fidelity) {
  SolveResult result;
  result.fidelity = fidelity;
  auto target = parse_target(arguments.target);
  if (!target) return tl::unexpected(target.error());
  result.target = std::move(*target);
  const auto over = only_range(arguments);
  if (!over) return tl::unexpected(over.error());
  const auto inputs = inputs_with(arguments, {});
  if (!inputs) return tl::unexpected(inputs.error());
  auto key = solve_key(arguments.solve, *inputs, *over);
  if (!key) return tl::unexpected(key.error());
  result.key = std::move(*key);
  result.plan = inputs->plan;
  result.model = reports::model_name(inputs->plan);
  Evaluation evaluation(arguments, result);
  if (const auto done = add_present(arguments, evaluation, result); !done) return tl::unexpected(done.error());
  const double near = result.key.value.value_or(result.key.range.low);
  auto solution = sim::solve(result.key.range, result.target.value, near, std::ref(evaluation));
  if (!solution) return tl::unexpected(solution.error());
  result.solution = std::move(*solution);
  if (!arguments.json.empty()) {
    if (const auto done = write_output(arguments.json, solve_json(result)); !done) return tl::unexpected(done.error());
  }
  if (arguments.json != "-") fmt::print("{}", solve_text(result, colour()));
  return result.found() ? 0 : infeasible_exit;
}

}  // namespace plumbline::cli
