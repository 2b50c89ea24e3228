#include "topologies/detail/prices.h"

#include <string_view>

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
  prices.utilization = ratio("price.utilisation", 0, 1);
  prices.pue = ratio("price.pue", 1, 10);
  prices.electricity = take("price.electricity", UnitDimension::usd_per_kwh, true);
  prices.host_power = take("power.host", UnitDimension::watts, true);
  prices.nic_power = take("power.nic", UnitDimension::watts, true);
  prices.switch_power = take("power.switch", UnitDimension::watts, true);
  return prices;
}

}  // namespace plumbline::topologies
