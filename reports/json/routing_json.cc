#include <nlohmann/json.hpp>

#include "reports/json/detail/document.h"
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
  return document<RoutingJson>({{"routing",
                                 {{"experts", spread_json(routing.experts)},
                                  {"ranks", spread_json(routing.ranks)},
                                  {"dropped", routing.dropped},
                                  {"balance", steps},
                                  {"loads", loads}}}});
}

}  // namespace plumbline::reports
