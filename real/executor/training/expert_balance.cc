#include "real/executor/training/expert_balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

LayerLoad statistics_of(std::int64_t layer, std::vector<double> rows) {
  const double average = mean(rows);
  double squares = 0;
  for (const double row : rows) squares += (row - average) * (row - average);
  LayerLoad load{.layer = layer};
  load.max_violation = *std::max_element(rows.begin(), rows.end()) / average - 1;
  load.variation = std::sqrt(squares / static_cast<double>(rows.size())) / average;
  load.rows = std::move(rows);
  return load;
}

}  // namespace

model::Result<std::vector<LayerLoad>> sum_loads(const std::vector<ExpertLoad>& own, std::int64_t layers,
                                                std::int64_t experts, Communicator& communicator) {
  // Every rank sends values for all layers, whichever it holds; those of the prediction module come last.
  std::vector<double> values(static_cast<std::size_t>((layers + 1) * experts));
  for (const ExpertLoad& load : own) {
    if (load.layer < -1 || load.layer >= layers || std::ssize(load.rows) != experts)
      return infeasible(fmt::format("loads of {} experts of layer {}, where the model has {} layers of {} experts",
                                    load.rows.size(), load.layer, layers, experts));
    const std::int64_t first = (load.layer < 0 ? layers : load.layer) * experts;
    for (std::int64_t e = 0; e < experts; ++e)
      values[static_cast<std::size_t>(first + e)] += load.rows[static_cast<std::size_t>(e)];
  }
  auto sums = TRY(communicator.sum(std::move(values)));
  std::vector<LayerLoad> loads;
  for (std::int64_t layer = 0; layer <= layers; ++layer) {
    const auto first = sums.begin() + layer * experts;
    std::vector<double> rows(first, first + experts);
    const bool routed = std::any_of(rows.begin(), rows.end(), [](double row) { return row > 0; });
    if (routed) loads.push_back(statistics_of(layer == layers ? -1 : layer, std::move(rows)));
  }
  return loads;
}

std::vector<float> moved_bias(std::vector<float> bias, const LayerLoad& load, double speed) {
  assert(bias.size() == load.rows.size());
  const double average = mean(load.rows);
  for (std::size_t e = 0; e < bias.size(); ++e) {
    const double missing = average - load.rows[e];
    if (missing != 0) bias[e] += static_cast<float>(std::copysign(speed, missing));
  }
  return bias;
}

void update_biases(TrainingStep& step, const std::vector<ExpertLoad>& own, const std::vector<LayerLoad>& all,
                   double speed) {
  for (const LayerLoad& load : all) {
    const bool held =
        std::any_of(own.begin(), own.end(), [&](const ExpertLoad& part) { return part.layer == load.layer; });
    if (held) step.set_router_bias(load.layer, moved_bias(step.router_bias(load.layer), load, speed));
  }
}

}  // namespace plumbline::real
