#include "calibrate/residuals/regression.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/cost/constants.h"
#include "model/profile/constant_change.h"

namespace plumbline::calibrate {
namespace {

using model::Result;

constexpr double growth = 1.02;  // of the times of a family, small enough that the step grows in proportion

// Patterns of the constants of a family: those that are times, and those that are rates.
struct Family {
  StepCause cause;
  std::vector<std::string_view> times, rates;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {StepCause::gemms,
       {"gemm.*k_time", "gemm.*wave_overhead", "gemm.*ramp"},
       {"gemm.*memory_bandwidth", "gemm.*output_bandwidth"}},
      {StepCause::attention,
       {"attention.*pair_time", "attention.*row_time"},
       {"attention.*_rate", "attention.*kv_bandwidth"}},
      {StepCause::memory_bound, {}, {"memory.*.bandwidth"}},
      {StepCause::launches, {"kernel.*launch_gap"}, {}},
      {StepCause::links,
       {"network.*latency", "collective.*launch", "collective.*base", "collective.*hop", "exchange.*time",
        "exchange.*start"},
       {"network.nic_rate*", "network.nvlink_rate*", "collective.*bandwidth*", "exchange.*rate*"}},
  };
  return all;
}

// Returns the profile with the times of a family grown by a factor.
Result<model::Profile> grown(const model::Profile& profile, const Family& family, double factor) {
  std::vector<model::ConstantChange> changes;
  const auto add = [&](std::string_view pattern, double by) {
    const auto fits = [&](const model::Parameter& constant) { return model::name_fits(constant.name, pattern); };
    if (std::ranges::any_of(profile.parameters(), fits)) changes.push_back({std::string(pattern), by});
  };
  for (const std::string_view pattern : family.times) add(pattern, factor);
  for (const std::string_view pattern : family.rates) add(pattern, 1 / factor);
  return profile.with_changes(changes);
}

Result<double> seconds_of(const sim::Inputs& inputs, sim::PredictorPool& predictors) {
  return predictors.with(inputs, [&](sim::Predictor& predictor) { return predictor.closed_form(inputs.plan); })
      .map([](const sim::PlanEstimate& estimate) { return estimate.step.time_s; });
}

// Returns by what a launch gap has to grow for a microsecond more; 0 where the profile has none.
double launch_growth(const model::Profile& profile) {
  const auto gap = model::ConstantReader(profile).find("kernel.launch_gap");
  return gap && gap->value > 0 ? 1 + 1e-6 / gap->value : 0;
}

}  // namespace

std::string_view to_string(StepCause cause) {
  constexpr std::string_view names[] = {"GEMMs", "attention", "memory-bound", "launches", "links", "hidden"};
  return names[static_cast<std::size_t>(cause)];
}

Result<StepShares> step_shares(const sim::Inputs& inputs, sim::PredictorPool& predictors) {
  const double step = TRY(seconds_of(inputs, predictors));
  StepShares shares{};
  for (const Family& family : families()) {
    const bool launches = family.cause == StepCause::launches;
    const double factor = launches ? launch_growth(inputs.profile) : growth;
    if (factor == 0) continue;
    sim::Inputs changed = inputs;
    changed.profile = TRY(grown(inputs.profile, family, factor));
    const double longer = TRY(seconds_of(changed, predictors));
    shares[static_cast<std::size_t>(family.cause)] = (longer - step) / (launches ? 1 : growth - 1);
  }
  sim::Inputs apart = inputs;
  apart.plan.overlap.gradient_reduce = apart.plan.overlap.parameter_gather = false;
  const double exposed = TRY(seconds_of(apart, predictors));
  shares[static_cast<std::size_t>(StepCause::hidden)] = std::max(0.0, exposed - step);
  return shares;
}

namespace {

using Eigen::Index;

constexpr double factor_deviation = 1, launch_deviation = 20;  // of the prior; of launches in us
constexpr int rounds = 5;                                      // of the residuals' deviation

double root_mean_square(const Eigen::VectorXd& values) {
  return std::sqrt(values.squaredNorm() / static_cast<double>(values.size()));
}

// Subtracts from each row the mean of its set.
void center(const std::vector<ResidualRow>& rows, Eigen::MatrixXd& values) {
  for (std::size_t first = 0; first < rows.size(); ++first) {
    std::vector<Index> members;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].set == rows[first].set) members.push_back(static_cast<Index>(i));
    if (members.front() != static_cast<Index>(first)) continue;
    Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(values.cols());
    for (const Index i : members) mean += values.row(i) / static_cast<double>(members.size());
    for (const Index i : members) values.row(i) -= mean;
  }
}

ResidualRegression regress(std::string name, const std::vector<ResidualRow>& rows, bool within) {
  const auto count = static_cast<Index>(rows.size());
  constexpr auto causes = static_cast<Index>(step_causes);
  Eigen::MatrixXd table(count, causes + 1);  // the last column is the residual
  for (Index i = 0; i < count; ++i) {
    const ResidualRow& row = rows[static_cast<std::size_t>(i)];
    for (Index j = 0; j < causes; ++j) table(i, j) = row.shares[static_cast<std::size_t>(j)] / row.predicted;
    table(i, causes) = row.measured / row.predicted - 1;
  }
  const Eigen::RowVectorXd means = table.colwise().mean();
  if (within) center(rows, table);
  const Eigen::MatrixXd shares = table.leftCols(causes);
  const Eigen::VectorXd residuals = table.col(causes);

  Eigen::VectorXd prior = Eigen::VectorXd::Constant(causes, 1 / (factor_deviation * factor_deviation));
  prior(static_cast<Index>(StepCause::launches)) = 1 / (launch_deviation * launch_deviation);
  ResidualRegression result{std::move(name), rows.size(), root_mean_square(residuals), 0, {}};
  double deviation = result.before;
  Eigen::VectorXd excess = Eigen::VectorXd::Zero(causes);
  Eigen::MatrixXd covariance;
  for (int round = 0; round < rounds && deviation > 0; ++round) {
    const double weight = 1 / (deviation * deviation);
    Eigen::MatrixXd information = weight * shares.transpose() * shares;
    information.diagonal() += prior;
    covariance = information.ldlt().solve(Eigen::MatrixXd::Identity(causes, causes));
    excess = covariance * (weight * shares.transpose() * residuals);
    deviation = root_mean_square(residuals - shares * excess);
  }
  result.after = deviation;
  for (Index j = 0; j < causes && covariance.size() > 0; ++j)
    result.causes.push_back(
        {static_cast<StepCause>(j), means(j), excess(j), std::sqrt(covariance(j, j)), excess(j) * means(j)});
  return result;
}

}  // namespace

std::vector<ResidualRegression> residual_regressions(const std::vector<ResidualRow>& rows) {
  std::vector<ResidualRegression> result;
  std::vector<std::string> sets;
  for (const ResidualRow& row : rows)
    if (std::ranges::find(sets, row.set) == sets.end()) sets.push_back(row.set);
  for (const std::string& set : sets) {
    std::vector<ResidualRow> members;
    std::ranges::copy_if(rows, std::back_inserter(members), [&](const ResidualRow& row) { return row.set == set; });
    if (members.size() > step_causes) result.push_back(regress(set, members, false));
  }
  if (sets.size() < 2 || rows.size() <= step_causes) return result;
  result.push_back(regress("all", rows, false));
  result.push_back(regress("within sets", rows, true));
  return result;
}

}  // namespace plumbline::calibrate
