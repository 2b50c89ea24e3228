#include <nlohmann/json.hpp>

#include "reports/json/detail/rows_csv.h"
#include "reports/json/document.h"
#include "reports/json/json.h"

namespace plumbline::reports {
namespace {

using RoutingJson = nlohmann::ordered_json;

RoutingJson spread_json(const model::LoadSpread& spread) {
  return {{"variation", spread.variation}, {"max_violation", spread.max_violation}};
}

}  // namespace

std::string routing_json(const model::RoutingStatistics& routing) {
  RoutingJson loads = RoutingJson::array(), steps = RoutingJson::array();
  for (const model::LayerRows& layer : routing.loads) loads.push_back({{"layer", layer.layer}, {"shares", layer.rows}});
  for (const model::RoutingStatistics::Step& step : routing.balance) {
    steps.push_back(spread_json(step.experts));
    steps.back()["step"] = step.step;
  }
  return document<RoutingJson>("show-routing", {{"routing",
                                                 {{"experts", spread_json(routing.experts)},
                                                  {"ranks", spread_json(routing.ranks)},
                                                  {"dropped", routing.dropped},
                                                  {"balance", steps},
                                                  {"loads", loads}}}});
}

std::string routing_csv(const model::RoutingStatistics& routing) {
  RoutingJson rows = RoutingJson::array();
  const auto add = [&rows](const char* of, const RoutingJson& step, const model::LoadSpread& spread) {
    rows.push_back({{"of", of}, {"step", step}});
    rows.back().update(spread_json(spread));
  };
  add("experts", nullptr, routing.experts);
  add("ranks", nullptr, routing.ranks);
  for (const model::RoutingStatistics::Step& step : routing.balance) add("balance", step.step, step.experts);
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
