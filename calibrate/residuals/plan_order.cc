#include "calibrate/residuals/plan_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace plumbline::calibrate {
namespace {

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

std::vector<PlanOrder> plan_orders(const std::vector<OrderedRow>& rows) {
  const std::vector<Cluster> clusters = clusters_of(rows);
  std::vector<PlanOrder> orders;
  for (const OrderedRow& row : rows) {
    if (std::ranges::find(orders, row.set, &PlanOrder::name) != orders.end()) continue;
    PlanOrder order = order_of(row.set, clusters, [&](const Cluster& cluster) { return cluster.set == row.set; });
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
