// The price of a GPU-hour, rented or owned, and the power of a GPU with its share of host and fabric.
//
// An owned GPU, in USD per GPU-hour:
//   capital     = (server / GPUs of a node + fabric / GPUs) / (years * 8766 h * utilisation)
//   electricity = power of a GPU / 1000 * PUE * USD per kWh
// with fabric = NICs * nic + switches * switch + links * link of the cluster's fabric. An idle hour costs capital
// (through the utilisation) but, in this formula, no electricity.
//
//   power of a GPU = its mean power in the step, where that is known, else the plan's limit or the TDP,
//                    + host power / GPUs of a node + (NICs * nic power + switches * switch power) / GPUs
//
// The range of a price takes every constant at its cheap end together, and every one at its expensive end.
#pragma once

#include <optional>
#include <string>

#include "model/profile/cluster.h"

namespace plumbline::model {

struct Plan;

struct HourlyPrice {  // USD per GPU-hour
  double value = 0;
  double low = 0, high = 0;
  std::string kind;  // of evidence, for an owned GPU the weakest of its constants; "stated": by the plan or an offer
  std::string source;
  std::optional<double> capital, electricity;  // parts of `value`, when owned
};

// A value, or the names of the constants that it lacks.
template <class T>
struct Known {
  std::optional<T> value;
  std::string missing;
};

// Returns run.price_usd_per_gpu_hour of the plan, else the topology's rent. A price of 0 in the plan means none.
Known<HourlyPrice> rent_price(const Plan& plan, const ClusterShape& cluster);

// Returns the price of an owned GPU. run.depreciation_years, utilisation, pue and electricity_usd_per_kwh of the plan
// replace the topology's. gpu_power_w: mean power of a GPU in W, where that is known.
Known<HourlyPrice> purchase_price(const Plan& plan, const ClusterShape& cluster,
                                  std::optional<double> gpu_power_w = std::nullopt);
// Returns the one of both that run.ownership names.
Known<HourlyPrice> hourly_price(const Plan& plan, const ClusterShape& cluster);

// Returns the price of all NICs, switches and links in USD.
std::optional<double> fabric_price(const ClusterShape& cluster);

// Returns the power of a GPU with its share of host and fabric in W, as supplied to the building (with PUE).
Known<double> supplied_power(const Plan& plan, const ClusterShape& cluster,
                             std::optional<double> gpu_power_w = std::nullopt);

}  // namespace plumbline::model
