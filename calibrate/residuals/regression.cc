#include "calibrate/residuals/regression.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

namespace plumbline::calibrate {
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
