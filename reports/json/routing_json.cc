#include <nlohmann/json.hpp>

#include "reports/json/document.h"
#include "reports/json/json.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json spread_json(const model::LoadSpread& spread) { return FIELDS(spread, variation, max_violation); }

}  // namespace

std::string routing_json(const model::RoutingStatistics& routing) {
  Json steps = Json::array();
  for (const model::RoutingStatistics::Step& step : routing.balance) {
    steps.push_back(spread_json(step.experts));
    steps.back()["step"] = step.step;
  }
  return document<Json>("show-routing", {{"routing",
                                          {{"experts", spread_json(routing.experts)},
                                           {"ranks", spread_json(routing.ranks)},
                                           {"dropped", routing.dropped},
                                           {"balance", steps},
                                           {"loads", list_of<Json>(routing.loads, [&](const model::LayerRows& layer) {
                                              return Json{{"layer", layer.layer}, {"shares", layer.rows}};
                                            })}}}});
}

std::string routing_csv(const model::RoutingStatistics& routing) {
  Json rows = Json::array();
  const auto add = [&rows](const char* of, const Json& step, const model::LoadSpread& spread) {
    rows.push_back({{"of", of}, {"step", step}});
    rows.back().update(spread_json(spread));
  };
  add("experts", nullptr, routing.experts);
  add("ranks", nullptr, routing.ranks);
  for (const model::RoutingStatistics::Step& step : routing.balance) add("balance", step.step, step.experts);
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
