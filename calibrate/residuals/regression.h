// A regression of relative residuals on the shares of the predicted steps: which cause a set of rows lacks. Residuals
// and shares are parts of the predicted step: of the measured one, a cause that is missing would lower all shares.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor.h"

namespace plumbline::calibrate {

// What a predicted step consists of, by how much it grows with each family of costs: the features by which residuals
// of predictions are explained.

// A family of costs. `hidden` is what overlapping gradient reductions and parameter gathers saves.
enum class StepCause : std::uint8_t { gemms, attention, memory_bound, launches, links, hidden };
inline constexpr std::size_t step_causes = 6;
std::string_view to_string(StepCause cause);

// The seconds of a step by cause, indexed by StepCause. Those of kernels and links are the derivative of the step to a
// factor on all their times, so what overlaps counts only as far as the step waits for it, and pipeline bubbles count
// with what they wait for. Those of launches are a microsecond for each kernel that the step waits for.
using StepShares = std::array<double, step_causes>;

// Returns the shares of the plan's step in closed form. Errors are those of Predictor::closed_form().
model::Result<StepShares> step_shares(const sim::Inputs& inputs, sim::PredictorPool& predictors);

struct ResidualRow {
  std::string set;
  double measured = 0, predicted = 0;  // s
  StepShares shares{};                 // s
};

struct ResidualCause {
  StepCause cause = StepCause::gemms;
  double share = 0;  // mean share of the predicted steps; of launches with a microsecond each
  // What the residuals ask for: the part by which the family takes longer, the part of hidden time that is exposed, or
  // the microseconds that each launch takes longer; and one standard deviation of it.
  double excess = 0, uncertainty = 0;
  double explains = 0;  // excess times share, in relative residual
};

struct ResidualRegression {
  std::string name;  // a set, "all", or "within sets": all rows less the means of their sets
  std::size_t rows = 0;
  double before = 0, after = 0;  // root mean square of measured / predicted - 1, and of what is left
  std::vector<ResidualCause> causes;
};

// Returns the regression of each set, of all rows, and of all rows within their sets, as far as they have more rows
// than causes: least squares with a prior of mean 0, whose deviation is 1 for factors and 20 us for launches, so that
// causes that rows do not separate stay near 0 with a large uncertainty.
std::vector<ResidualRegression> residual_regressions(const std::vector<ResidualRow>& rows);

// How well predictions order the plans of one training run, and what the plan costs that they choose.

struct OrderedRow {
  std::string set;
  std::string run;                     // what plans are compared for: rows of the same set and run are a cluster
  std::string plan;                    // rows of a cluster with the same plan are repetitions, whose times are averaged
  bool schedule = false;               // whether the plans of the cluster differ in their schedules alone
  double measured = 0, predicted = 0;  // s
};

struct PlanOrder {
  std::string name;                    // a set, or "all"
  std::size_t clusters = 0, rows = 0;  // clusters of at least two plans, and their plans
  // Kendall's tau over the pairs of plans within clusters: 1 where all are in the measured order.
  double tau = 0;
  double regret = 0;         // what the plan predicted fastest takes longer than the fastest, mean over clusters
  double random_regret = 0;  // the same of a plan chosen at random
};

struct ClusterScatter {  // the standard deviation of ln(predicted / measured) around the mean of each cluster
  double schedules = 0, layouts = 0;  // of clusters whose plans differ in schedules alone, and of the others
};

// Returns the order of each set that has clusters, then of all.
std::vector<PlanOrder> plan_orders(const std::vector<OrderedRow>& rows);
ClusterScatter cluster_scatter(const std::vector<OrderedRow>& rows);

}  // namespace plumbline::calibrate
