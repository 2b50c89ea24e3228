#include "calibrate/residuals/regression.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "model/base/distinct.h"
#include "model/cost/constants.h"
#include "model/profile/constant_rules.h"

namespace plumbline::calibrate {
namespace {

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
model::Result<model::Profile> grown(const model::Profile& profile, const Family& family, double factor) {
  std::vector<model::ConstantChange> changes;
  const auto add = [&](std::string_view pattern, double by) {
    const auto fits = [&](const model::Parameter& constant) { return model::name_fits(constant.name, pattern); };
    if (std::ranges::any_of(profile.parameters(), fits)) changes.push_back({std::string(pattern), by});
  };
  for (const std::string_view pattern : family.times) add(pattern, factor);
  for (const std::string_view pattern : family.rates) add(pattern, 1 / factor);
  return profile.with_changes(changes);
}

model::Result<double> seconds_of(const sim::Inputs& inputs, sim::PredictorPool& predictors) {
  return predictors.with(inputs, [&](sim::Predictor& predictor) { return predictor.closed_form(inputs.plan); })
      .map([](const sim::PlanEstimate& estimate) { return estimate.step.time_s; });
}

// Returns by what a launch gap has to grow for a microsecond more; 0 where the profile has none.
double launch_growth(const model::Profile& profile) {
  const auto gap = model::ConstantReader(profile).find("kernel.launch_gap");
  return gap && gap->value > 0 ? 1 + 1e-6 / gap->value : 0;
}

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

struct Plan {  // means over its repetitions
  double measured = 0, predicted = 0;
  int repetitions = 0;
};

struct Cluster {
  std::string set;
  bool schedules = true;
  std::vector<Plan> plans;
};

// Returns the clusters of at least two plans, by set and run.
std::vector<Cluster> clusters_of(const std::vector<OrderedRow>& rows) {
  std::map<std::pair<std::string, std::string>, std::map<std::string, Plan>> plans;
  std::map<std::pair<std::string, std::string>, bool> schedules;
  for (const OrderedRow& row : rows) {
    Plan& plan = plans[{row.set, row.run}][row.plan];
    plan.measured += row.measured;
    plan.predicted += row.predicted;
    ++plan.repetitions;
    schedules[{row.set, row.run}] = row.schedule;
  }
  std::vector<Cluster> clusters;
  for (auto& [key, members] : plans) {
    if (members.size() < 2) continue;
    Cluster& cluster = clusters.emplace_back(Cluster{key.first, schedules[key], {}});
    for (auto& [name, plan] : members)
      cluster.plans.push_back({plan.measured / plan.repetitions, plan.predicted / plan.repetitions, plan.repetitions});
  }
  return clusters;
}

template <class Wanted>
PlanOrder order_of(std::string name, const std::vector<Cluster>& clusters, const Wanted& wanted) {
  PlanOrder order;
  order.name = std::move(name);
  double agreeing = 0, pairs = 0;
  for (const Cluster& cluster : clusters) {
    if (!wanted(cluster)) continue;
    const std::vector<Plan>& plans = cluster.plans;
    ++order.clusters;
    order.rows += plans.size();
    for (std::size_t i = 0; i < plans.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double product = (plans[i].measured - plans[j].measured) * (plans[i].predicted - plans[j].predicted);
        agreeing += product > 0 ? 1 : product < 0 ? -1 : 0;
        ++pairs;
      }
    const double best = std::ranges::min(plans, {}, &Plan::measured).measured;
    const double mean =
        std::accumulate(plans.begin(), plans.end(), 0.0, [](double sum, const Plan& p) { return sum + p.measured; }) /
        static_cast<double>(plans.size());
    order.regret += std::ranges::min(plans, {}, &Plan::predicted).measured / best - 1;
    order.random_regret += mean / best - 1;
  }
  if (order.clusters == 0) return order;
  order.tau = agreeing / pairs;
  order.regret /= static_cast<double>(order.clusters);
  order.random_regret /= static_cast<double>(order.clusters);
  return order;
}

double scatter_of(const std::vector<Cluster>& clusters, bool schedules) {
  double squares = 0, freedom = 0;
  for (const Cluster& cluster : clusters) {
    if (cluster.schedules != schedules) continue;
    double sum = 0;
    const auto count = static_cast<double>(cluster.plans.size());
    for (const Plan& plan : cluster.plans) sum += std::log(plan.predicted / plan.measured);
    for (const Plan& plan : cluster.plans)
      squares += std::pow(std::log(plan.predicted / plan.measured) - sum / count, 2);
    freedom += count - 1;
  }
  return freedom > 0 ? std::sqrt(squares / freedom) : 0;
}

}  // namespace

std::string_view to_string(StepCause cause) {
  constexpr std::string_view names[] = {"GEMMs", "attention", "memory-bound", "launches", "links", "hidden"};
  return names[static_cast<std::size_t>(cause)];
}

model::Result<StepShares> step_shares(const sim::Inputs& inputs, sim::PredictorPool& predictors) {
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

std::vector<ResidualRegression> residual_regressions(const std::vector<ResidualRow>& rows) {
  std::vector<ResidualRegression> result;
  const std::vector<std::string> sets = model::distinct(rows, &ResidualRow::set);
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

std::vector<PlanOrder> plan_orders(const std::vector<OrderedRow>& rows) {
  const std::vector<Cluster> clusters = clusters_of(rows);
  std::vector<PlanOrder> orders;
  for (const std::string& set : model::distinct(rows, &OrderedRow::set)) {
    PlanOrder order = order_of(set, clusters, [&](const Cluster& cluster) { return cluster.set == set; });
    if (order.clusters > 0) orders.push_back(std::move(order));
  }
  if (orders.size() > 1) orders.push_back(order_of("all", clusters, [](const Cluster&) { return true; }));
  return orders;
}

ClusterScatter cluster_scatter(const std::vector<OrderedRow>& rows) {
  const std::vector<Cluster> clusters = clusters_of(rows);
  return {scatter_of(clusters, true), scatter_of(clusters, false)};
}

}  // namespace plumbline::calibrate
