// How well predictions order the plans of one training run, and what the plan costs that they choose.
#pragma once

#include <string>
#include <vector>

namespace plumbline::calibrate {

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
