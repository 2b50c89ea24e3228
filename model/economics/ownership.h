// What a GPU-hour costs, rented or owned, and what power a GPU takes with its share of everything around it.
//
// Owned, in USD per GPU-hour:
//   capital     = (server / GPUs of a node + fabric / GPUs) / (years * 8766 h * utilisation)
//   electricity = power of a GPU / 1000 * PUE * USD per kWh
// with fabric = NICs * nic + switches * switch + links * link of the cluster's fabric. An hour in which the GPU does
// not work costs capital (utilisation) but, as counted here, no electricity.
//
//   power of a GPU = TDP + host power / GPUs of a node + (NICs * nic power + switches * switch power) / GPUs
//
// The range of a price has every constant at its cheap end together, and every one at its dear end.
#pragma once

#include <optional>
#include <string>

#include "model/plan/plan.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

struct HourlyPrice {  // USD per GPU-hour
  double value = 0;
  double low = 0, high = 0;
  Evidence kind = Evidence::assumed;  // of an owned GPU: the weakest of what it is made of
  std::string source;
  std::optional<double> capital, electricity;  // of `value`, when owned
};

// A value, or which constants it lacks, in words.
template <class T>
struct Known {
  std::optional<T> value;
  std::string missing;
};

// run.price_usd_per_gpu_hour of the plan, else the topology's rent. A plan's price of 0 is none.
Known<HourlyPrice> rent_price(const Plan& plan, const ClusterShape& cluster);

// run.depreciation_years, utilisation, pue and electricity_usd_per_kwh of the plan go before the topology's.
Known<HourlyPrice> purchase_price(const Plan& plan, const ClusterShape& cluster);

// USD of all NICs, switches and links.
std::optional<double> fabric_price(const ClusterShape& cluster);

// W of a GPU with its share of host and fabric, as the building supplies it (with PUE).
Known<double> supplied_power(const Plan& plan, const ClusterShape& cluster);

}  // namespace plumbline::model
