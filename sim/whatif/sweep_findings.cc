#include "sim/whatif/sweep_findings.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "model/cost/operator_class.h"

namespace plumbline::sim {

namespace {

// Points whose busiest rank has equally many FLOPs compute the same.
using Work = std::tuple<std::string, std::string, double>;

std::optional<Work> work_of(const model::Result<SweepPoint>& point) {
  if (!point || !point->flops_at_peak_s) return std::nullopt;
  return Work{point->device, point->profile, *point->flops_at_peak_s};
}

// Nothing where nobody looked.
std::optional<double> total(const model::PerOp& values) {
  double sum = 0;
  for (const auto& value : values) {
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

}  // namespace

std::optional<std::size_t> cheapest(const std::vector<std::optional<double>>& costs) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (costs[i] && (!best || *costs[i] < *costs[*best])) best = i;
  }
  return best;
}

Stretch plateau(const std::vector<std::optional<double>>& costs, std::size_t best, double tolerance) {
  const auto near = [&](std::size_t i) { return costs[i] && *costs[i] <= *costs[best] * (1 + tolerance); };
  Stretch stretch{best, best};
  while (stretch.first > 0 && near(stretch.first - 1)) --stretch.first;
  while (stretch.last + 1 < costs.size() && near(stretch.last + 1)) ++stretch.last;
  return stretch;
}

std::vector<Stretch> stretches_within(const std::vector<std::optional<double>>& values, double limit) {
  std::vector<Stretch> stretches;
  bool inside = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool within = values[i] && *values[i] <= limit;
    if (within && !inside) stretches.push_back({i, i});
    if (within) stretches.back().last = i;
    inside = within;
  }
  return stretches;
}

std::optional<double> exposed_seconds(const model::StepTimes& step) { return total(step.exposed_mean_s); }

std::optional<double> exposed_share(const model::StepTimes& step) {
  constexpr auto pair = static_cast<std::size_t>(model::OpType::FB);
  if (!step.exposed_mean_s[pair]) return std::nullopt;
  const double pairs = step.slots_mean_s[pair].value_or(0);
  if (pairs > 0) return *step.exposed_mean_s[pair] / pairs;
  const double slots = total(step.slots_mean_s).value_or(0);
  return slots > 0 ? std::optional(*total(step.exposed_mean_s) / slots) : std::nullopt;
}

std::optional<double> product_seconds(const model::StepTimes& step) {
  const auto row = std::ranges::find(step.breakdown, model::breakdown_name(model::OperatorClass::gemm),
                                     &model::StepTimes::ClassTime::name);
  if (row == step.breakdown.end()) return std::nullopt;
  return row->seconds;
}

std::vector<std::optional<double>> product_slowdowns(const std::vector<model::Result<SweepPoint>>& points) {
  std::map<Work, double> fastest;
  for (const auto& point : points) {
    const auto work = work_of(point);
    const auto seconds = work ? product_seconds(point->step) : std::nullopt;
    if (!seconds) continue;
    const auto [entry, fresh] = fastest.try_emplace(*work, *seconds);
    if (!fresh) entry->second = std::min(entry->second, *seconds);
  }
  std::vector<std::optional<double>> slowdowns;
  for (const auto& point : points) {
    const auto work = work_of(point);
    const auto seconds = work ? product_seconds(point->step) : std::nullopt;
    const bool known = seconds && fastest.at(*work) > 0;
    slowdowns.push_back(known ? std::optional<double>(*seconds / fastest.at(*work)) : std::nullopt);
  }
  return slowdowns;
}

}  // namespace plumbline::sim
