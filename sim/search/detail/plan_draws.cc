#include "sim/search/detail/plan_draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"

namespace plumbline::sim {
namespace {

// Values of what is not drawn through the closed form, for each closed form.
constexpr std::size_t values_of_ratio = 16;

// Returns `values_of_ratio` values for each ratio: times exp(location + the sum of the parts).
std::vector<double> with_errors(const std::vector<double>& ratios, double location, const std::vector<ErrorPart>& parts,
                                std::uint64_t seed) {
  std::vector<double> logs(ratios.size() * values_of_ratio, location);
  for (const ErrorPart& part : parts) {
    if (part.deviation <= 0) continue;
    const std::vector<double> normal = normal_column(part.key, seed, logs.size());
    for (std::size_t i = 0; i < logs.size(); ++i) logs[i] += part.deviation * normal[i];
  }
  std::vector<double> factors;
  for (std::size_t i = 0; i < logs.size(); ++i) factors.push_back(ratios[i / values_of_ratio] * std::exp(logs[i]));
  return factors;
}

}  // namespace

std::vector<ErrorPart> step_errors(const Inputs& inputs) {
  const model::Plan& plan = inputs.plan;
  const Left left = inputs.left.value_or(Left{.own = layout_scatter});
  const double of_plans = std::min(left.own / layout_scatter, 1.0), schedule = of_plans * schedule_scatter;
  const double layout = of_plans * layout_scatter, shared = left.common * left.common / 2;
  std::string key = "step " + inputs.profile.stack();
  std::vector<ErrorPart> parts = {{key, std::sqrt(shared)}};
  const auto add = [&](const std::string& of, double variance) {
    key += of;
    parts.push_back({key, std::sqrt(std::max(variance, 0.0))});
  };
  add(fmt::format(" {} {}", inputs.cluster.name, inputs.profile.name()),
      shared + left.own * left.own - layout * layout);
  std::string degrees = fmt::format(" gpus {} micro-batch {} zero {}", plan.cluster.gpus, plan.batch.micro_batch_size,
                                    plan.parallelism.zero_stage);
  for (const model::Degree& degree : model::parallel_degrees)
    degrees += fmt::format(" {}", plan.parallelism.*degree.value);
  add(degrees, layout * layout - schedule * schedule);
  add(model::to_toml(plan), schedule * schedule);
  return parts;
}

model::Result<void> draw_plan(const Inputs& inputs, unsigned threads, model::StepResult& result, PlanCost& cost) {
  const IntervalOptions options{.threads = threads, .parts = false};
  const std::uint64_t seed = options.seed;
  auto [interval, draws] = TRY(draw_interval(inputs, result, options));
  result.interval = std::move(interval);
  const double middle = result.interval->time_s.p50 / result.step.time_s;
  const double location = inputs.left ? inputs.left->location : 0;
  cost.time_draws = with_errors(draws.time_ratio, location - std::log(middle), step_errors(inputs), seed);
  const std::size_t rows = cost.time_draws.size();
  // Software that needs more memory than is known needs it in all of its plans: the fuller ones fail first.
  const std::vector<double> order = uniform_column("fits with " + inputs.profile.stack(), seed, rows);
  for (std::size_t i = 0; i < rows; ++i)
    if (order[i] > result.interval->fits_probability) cost.time_draws[i] = std::numeric_limits<double>::infinity();
  // Prices of two clusters are two facts; sizes of one cluster have one price.
  const auto price = result.run ? result.run->price().value : std::nullopt;
  cost.price_draws =
      price ? price_draws(*price, "price " + inputs.cluster.name, seed, rows) : std::vector<double>(rows, 1);
  return {};
}

model::Result<std::vector<model::IntervalPart>> drawn_parts(const Inputs& inputs, unsigned threads,
                                                            const model::StepResult& result) {
  return TRY(interval_of(inputs, result, {.threads = threads})).parts;
}

}  // namespace plumbline::sim
