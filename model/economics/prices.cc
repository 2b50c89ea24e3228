#include "model/economics/prices.h"

namespace plumbline::model {

std::vector<Parameter> Prices::stated() const {
  std::vector<Parameter> known;
  for (const Entry* entry : {&rent, &server, &nic, &fabric_switch, &link, &depreciation, &utilization, &pue,
                             &electricity, &host_power, &nic_power, &switch_power}) {
    if (*entry) known.push_back(**entry);
  }
  return known;
}

}  // namespace plumbline::model
