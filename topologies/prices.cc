#include "topologies/detail/prices.h"

#include <string_view>

#include "topologies/topology.h"

namespace plumbline::topologies {

model::Prices take_prices(const model::ParameterFile& file, ParameterTaker& taker) {
  using model::UnitDimension;
  const auto entry = [&](std::string_view name, const auto& take_number) {
    const model::ParameterFile::Number* number = file.number(name);
    if (number == nullptr) {
      taker.could_take(name);
      return model::Prices::Entry();
    }
    take_number();
    return model::Prices::Entry(number->parameter);
  };
  const auto take = [&](std::string_view name, UnitDimension dimension, bool may_be_zero = false) {
    return entry(name, [&] { taker.take(name, dimension, may_be_zero); });
  };
  const auto ratio = [&](std::string_view name, double least, double most) {
    return entry(name, [&] { taker.ratio(name, least, most); });
  };
  model::Prices prices;
  prices.rent = take("price.rent", UnitDimension::usd_per_gpu_hour);
  prices.server = take("price.server", UnitDimension::usd);
  prices.nic = take("price.nic", UnitDimension::usd);
  prices.fabric_switch = take("price.switch", UnitDimension::usd);
  prices.link = take("price.link", UnitDimension::usd);
  prices.depreciation = take("price.depreciation", UnitDimension::years);
  prices.utilisation = ratio("price.utilisation", 0, 1);
  prices.pue = ratio("price.pue", 1, 10);
  prices.electricity = take("price.electricity", UnitDimension::usd_per_kwh, true);
  prices.host_power = take("power.host", UnitDimension::watts, true);
  prices.nic_power = take("power.nic", UnitDimension::watts, true);
  prices.switch_power = take("power.switch", UnitDimension::watts, true);
  return prices;
}

void vary(const Variation& variation, const std::string& device, double nic_gbps, model::Prices& prices) {
  const auto changed = [&prices](const char* key) {
    prices.changed += (prices.changed.empty() ? "" : ", ") + std::string(key);
    prices.rent.reset();
  };
  if (variation.device && *variation.device != device) {
    changed("cluster.device");
    prices.server.reset();
    prices.host_power.reset();
  }
  if (variation.nic_gbps && *variation.nic_gbps != nic_gbps) {
    changed("cluster.nic_gbps");
    for (auto* entry : {&prices.nic, &prices.fabric_switch, &prices.link, &prices.nic_power, &prices.switch_power})
      entry->reset();
  }
  if (variation.nics_per_node) changed("cluster.nics_per_node");
}

}  // namespace plumbline::topologies
