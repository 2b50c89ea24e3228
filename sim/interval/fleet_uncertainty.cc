// Jitter and slow ranks: what steps take beyond a step in which every machine is as fast as its median.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "model/result/prediction_interval.h"
#include "sim/cluster/fleet_priors.h"
#include "sim/interval/detail/spread.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

namespace {

constexpr char fleet_source[] = "jitter and slow ranks";

// Returns how much longer the mean of logged steps is than their median: 0.00029 GPUs^0.28, a fit to the runs of 8 to
// 8,192 GPUs in calibrate/published/step_time_jitter.csv whose largest step is below 5 medians (51 rows). The standard
// deviation of their logarithm is 1.2.
double steps_excess(double gpus, double z) {
  constexpr double of_one = 0.000287, exponent = 0.284, deviation = 1.21;
  return of_one * std::pow(gpus, exponent) * std::exp(deviation * z);
}

// Returns the slowdown by stragglers of a production fleet. ln of it is linear in z between published quantiles of
// 3,079 jobs (straggler.bytedance.* of calibrate/published/straggler_priors.toml): 42.5 % of jobs are at least 10 %
// slower, the worst decile wastes 21.3 % of its GPU-hours and more, the worst percent 45 %. Below z = -1.28 it is 1,
// which makes the mean waste the published 10.4 %. All of it is secondhand: half the value is one standard deviation,
// whose square adds to that of the jobs.
double straggling(double z) {
  struct Point {
    double z, ln;
  };
  constexpr double doubt = 0.5;
  constexpr std::array points = {Point{-1.2816, 0}, Point{0.1891, 0.0953}, Point{1.2816, 0.2395},
                                 Point{2.3263, 0.5978}};
  const auto jobs = [&](double at) {
    std::size_t i = 1;
    while (i + 1 < points.size() && at > points[i].z) ++i;
    const Point &from = points[i - 1], &to = points[i];
    return std::max(0.0, from.ln + (at - from.z) / (to.z - from.z) * (to.ln - from.ln));
  };
  const double middle = jobs(0), here = jobs(z);
  const double apart = std::copysign(std::hypot(here - middle, doubt * z * here), z);
  return std::exp(std::max(0.0, middle + apart));
}

}  // namespace

void add_fleet(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const model::Plan& plan = inputs.plan;
  const auto gpus = static_cast<double>(plan.cluster.gpus);
  found.push_back({"jitter of steps", fleet_source,
                   [gpus](double z, InputChange& change) { change.step_factor *= 1 + steps_excess(gpus, z); }});
  // Groups of tensor-parallel ranks are what was traced. The slowest of them is late by the sum of its operators'
  // delays, which are taken as independent: their mean over a step falls with the square root of their number.
  const std::int64_t groups = plan.cluster.gpus / plan.parallelism.tensor;
  const double replicas =
      static_cast<double>(groups) / static_cast<double>(plan.parallelism.context * plan.parallelism.pipeline);
  const auto sequences =
      static_cast<double>(plan.batch.global_batch_size) / static_cast<double>(plan.batch.micro_batch_size);
  const double operators = 2 * std::max(1.0, sequences / replicas);  // forward and backward of each micro-batch
  const double late = expected_largest(groups) / model::normal_p90 / std::sqrt(operators);
  if (late > 0)
    found.push_back({"jitter of operators", fleet_source, [late](double z, InputChange& change) {
                       change.step_factor *= 1 + late * geometric(spread_of(operation_p90), z);
                     }});
  if (plan.cluster.fleet == "stragglers")
    found.push_back(
        {"stragglers", fleet_source, [](double z, InputChange& change) { change.step_factor *= straggling(z); }});
}

}  // namespace plumbline::sim
