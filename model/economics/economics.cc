#include "model/economics/economics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "model/economics/ownership.h"

namespace plumbline::model {
namespace {

constexpr double seconds_per_hour = 3600;
constexpr double hours_per_day = 24;
constexpr double watts_per_megawatt = 1e6;

std::optional<double> cost(double gpu_hours, const Known<HourlyPrice>& price, double HourlyPrice::*end) {
  return price.value ? std::optional(gpu_hours * (*price.value).*end) : std::nullopt;
}

CampaignGoodput goodput_of(const Plan& plan, const std::optional<CampaignGoodput>& campaign) {
  if (!plan.run.goodput) return {1, "without failures"};
  if (const auto stated = number_of(*plan.run.goodput)) return {*stated, "stated by the plan"};
  return campaign.value_or(CampaignGoodput{1, "without failures, whose rates this prediction lacks"});
}

}  // namespace

std::optional<double> RunCost::cost_low_usd(double hours) const { return cost(hours, price(), &HourlyPrice::low); }
std::optional<double> RunCost::cost_high_usd(double hours) const { return cost(hours, price(), &HourlyPrice::high); }
std::optional<double> RunCost::energy_mwh(double hours) const {
  return power_w.value ? std::optional(hours * *power_w.value / watts_per_megawatt) : std::nullopt;
}

std::optional<RunCost> run_cost(const Plan& plan, double step_time_s, const ClusterShape& cluster,
                                std::optional<double> gpu_power_w, const std::optional<CampaignGoodput>& campaign) {
  if (!plan.run.tokens) return std::nullopt;
  RunCost run;
  run.tokens = *plan.run.tokens;
  const auto tokens_per_step =
      static_cast<double>(plan.batch.global_batch_size) * static_cast<double>(plan.batch.sequence_length);
  run.steps = run.tokens / tokens_per_step;
  const auto [goodput, source] = goodput_of(plan, campaign);
  run.goodput = goodput;
  run.goodput_source = source;
  const double hours = run.steps * step_time_s / seconds_per_hour / goodput;
  run.days = hours / hours_per_day;
  run.gpu_hours = hours * static_cast<double>(plan.cluster.gpus);
  run.phases.push_back({"pretraining", run.gpu_hours, "predicted", ""});
  for (const RunPhase& phase : plan.run.phases)
    run.phases.push_back({phase.name, phase.gpu_hours, "published", phase.source});
  for (const RunPhaseCost& phase : run.phases) run.total_gpu_hours += phase.gpu_hours;
  run.ownership = plan.run.ownership;
  run.rent = rent_price(plan, cluster);
  run.purchase = purchase_price(plan, cluster, gpu_power_w);
  run.cost_usd = cost(run.gpu_hours, run.price(), &HourlyPrice::value);
  run.total_cost_usd = cost(run.total_gpu_hours, run.price(), &HourlyPrice::value);
  run.power_w = supplied_power(plan, cluster, gpu_power_w);
  run.power_predicted = gpu_power_w.has_value();
  run.fabric = cluster.fabric;
  run.fabric_usd = fabric_price(cluster);
  return run;
}

namespace {

constexpr double hours_per_year = 8766;  // of 365.25 days
constexpr double watts_per_kilowatt = 1000;

enum class End { value, cheap, dear };  // points of a constant's range

double at(const Parameter& parameter, End end, bool dear_is_low = false) {
  if (end == End::value) return parameter.value;
  const bool low = (end == End::cheap) != dear_is_low;
  return (low ? parameter.low : parameter.high).value_or(parameter.value);
}

// Returns the words before a list of missing constants.
std::string stated_by(const ClusterShape& cluster) {
  if (cluster.prices.changed.empty()) return fmt::format("{} does not state", cluster.name);
  return fmt::format("{} does not state for the plan's {}:", cluster.name, cluster.prices.changed);
}

// Collects the needed constants and the names of the missing ones.
class Needs {
 public:
  const Parameter* operator()(const Prices::Entry& entry, std::string_view name) {
    if (!entry) {
      missing_ += fmt::format("{}{}", missing_.empty() ? "" : ", ", name);
      return nullptr;
    }
    weakest_ = std::max(weakest_, entry->kind);
    return &*entry;
  }
  // A price is not needed for parts that the fabric does not have.
  const Parameter* operator()(std::int64_t count, const Prices::Entry& entry, std::string_view name) {
    return count > 0 ? (*this)(entry, name) : nullptr;
  }
  bool complete() const { return missing_.empty(); }
  std::string missing(const ClusterShape& cluster) const {
    return complete() ? "" : fmt::format("{} {}", stated_by(cluster), missing_);
  }
  Evidence weakest() const { return weakest_; }

 private:
  std::string missing_;
  Evidence weakest_ = Evidence::measured;
};

// Returns the plan's value, else the topology's.
Prices::Entry overridden(const Prices::Entry& entry, const std::optional<double>& by, std::string_view key) {
  if (!by) return entry;
  Parameter parameter;
  parameter.value = *by;
  parameter.kind = Evidence::assumed;
  parameter.source = fmt::format("the plan's {}", key);
  return parameter;
}

Prices effective(const Plan& plan, const ClusterShape& cluster) {
  Prices prices = cluster.prices;
  prices.depreciation = overridden(prices.depreciation, plan.run.depreciation_years, "run.depreciation_years");
  prices.utilization = overridden(prices.utilization, plan.run.utilization, "run.utilisation");
  prices.pue = overridden(prices.pue, plan.run.pue, "run.pue");
  prices.electricity = overridden(prices.electricity, plan.run.electricity_usd_per_kwh, "run.electricity_usd_per_kwh");
  return prices;
}

double times(std::int64_t count, const Parameter* each, End end) {
  return each == nullptr ? 0 : static_cast<double>(count) * at(*each, end);
}

class Fabric {
 public:
  Fabric(const FabricParts& parts, const Prices& prices, Needs& needs)
      : parts_(parts),
        nic_(needs(parts.nics, prices.nic, "price.nic")),
        switch_(needs(parts.switches, prices.fabric_switch, "price.switch")),
        link_(needs(parts.links, prices.link, "price.link")) {}

  double usd(End end) const {
    return times(parts_.nics, nic_, end) + times(parts_.switches, switch_, end) + times(parts_.links, link_, end);
  }

 private:
  FabricParts parts_;
  const Parameter *nic_, *switch_, *link_;
};

// Returns the upper estimate of what a GPU draws in W; 0: unknown.
double most_power(const Plan& plan, const ClusterShape& cluster) {
  return plan.cluster.power_limit_w.value_or(cluster.device.tdp);
}

class Power {
 public:
  Power(const ClusterShape& cluster, const Prices& prices, double gpu_w, Needs& needs)
      : cluster_(cluster),
        gpu_w_(gpu_w),
        host_(needs(prices.host_power, "power.host")),
        nic_(needs(cluster.fabric.nics, prices.nic_power, "power.nic")),
        switch_(needs(cluster.fabric.switches, prices.switch_power, "power.switch")),
        pue_(needs(prices.pue, "price.pue")) {
    if (gpu_w <= 0) needs(std::nullopt, "tdp of its device");
  }

  double supplied(End end) const {
    const double fabric = times(cluster_.fabric.nics, nic_, end) + times(cluster_.fabric.switches, switch_, end);
    const double machines = gpu_w_ + at(*host_, end) / static_cast<double>(cluster_.gpus_per_node) +
                            fabric / static_cast<double>(cluster_.gpus);
    return machines * at(*pue_, end);
  }

 private:
  const ClusterShape& cluster_;
  double gpu_w_;
  const Parameter *host_, *nic_, *switch_, *pue_;
};

}  // namespace

Known<HourlyPrice> rent_price(const Plan& plan, const ClusterShape& cluster) {
  if (plan.run.price_usd_per_gpu_hour) {
    const double price = *plan.run.price_usd_per_gpu_hour;
    if (price == 0) return {std::nullopt, "the plan's run.price_usd_per_gpu_hour is 0"};
    return {HourlyPrice{price, price, price, "stated", "the plan's run.price_usd_per_gpu_hour", {}, {}}, ""};
  }
  const Prices::Entry& rent = cluster.prices.rent;
  if (!rent) return {std::nullopt, fmt::format("{} price.rent", stated_by(cluster))};
  const std::string kind(to_string(rent->kind));
  return {HourlyPrice{rent->value, at(*rent, End::cheap), at(*rent, End::dear), kind, rent->source, {}, {}}, ""};
}

Known<HourlyPrice> purchase_price(const Plan& plan, const ClusterShape& cluster, std::optional<double> gpu_power_w) {
  const Prices prices = effective(plan, cluster);
  Needs needs;
  const Parameter* server = needs(prices.server, "price.server");
  const Fabric fabric(cluster.fabric, prices, needs);
  const Parameter* years = needs(prices.depreciation, "price.depreciation");
  const Parameter* utilization = needs(prices.utilization, "price.utilisation");
  const Parameter* electricity = needs(prices.electricity, "price.electricity");
  const Power power(cluster, prices, gpu_power_w.value_or(most_power(plan, cluster)), needs);
  if (!needs.complete()) return {std::nullopt, needs.missing(cluster)};
  const auto capital = [&](End end) {
    const double usd = at(*server, end) / static_cast<double>(cluster.gpus_per_node) +
                       fabric.usd(end) / static_cast<double>(cluster.gpus);
    return usd / (at(*years, end, true) * hours_per_year * at(*utilization, end, true));
  };
  const auto energy = [&](End end) { return power.supplied(end) / watts_per_kilowatt * at(*electricity, end); };
  HourlyPrice price;
  price.capital = capital(End::value);
  price.electricity = energy(End::value);
  price.value = *price.capital + *price.electricity;
  price.low = capital(End::cheap) + energy(End::cheap);
  price.high = capital(End::dear) + energy(End::dear);
  price.kind = to_string(needs.weakest());
  price.source = fmt::format("prices and power of {}: {:g} years, {:.3g} % used, PUE {:g}, {:g} USD/kWh", cluster.name,
                             years->value, utilization->value * 100, prices.pue->value, electricity->value);
  return {price, ""};
}

Known<HourlyPrice> hourly_price(const Plan& plan, const ClusterShape& cluster) {
  return plan.run.ownership == "purchase" ? purchase_price(plan, cluster) : rent_price(plan, cluster);
}

std::optional<double> fabric_price(const ClusterShape& cluster) {
  Needs needs;
  const Fabric fabric(cluster.fabric, cluster.prices, needs);
  return needs.complete() ? std::optional(fabric.usd(End::value)) : std::nullopt;
}

Known<double> supplied_power(const Plan& plan, const ClusterShape& cluster, std::optional<double> gpu_power_w) {
  const Prices prices = effective(plan, cluster);
  Needs needs;
  const Power power(cluster, prices, gpu_power_w.value_or(most_power(plan, cluster)), needs);
  if (!needs.complete()) return {std::nullopt, needs.missing(cluster)};
  return {power.supplied(End::value), ""};
}

}  // namespace plumbline::model
