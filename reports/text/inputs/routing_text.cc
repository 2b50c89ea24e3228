#include <fmt/format.h>

#include "reports/text/inputs/inputs_text.h"
#include "reports/text/table.h"

namespace plumbline::reports {

namespace {

std::vector<std::string> spread_row(const std::string& what, const model::LoadSpread& spread) {
  return {what, fmt::format("{:.2f} %", 100 * spread.variation), fmt::format("{:.3f}", spread.max_violation)};
}

}  // namespace

std::string routing_text(const model::RoutingStatistics& routing, const std::string& plan) {
  Table table("load | >deviation | >MaxVio");
  table.add(spread_row("experts of a layer, all micro-batches", routing.experts));
  table.add(spread_row("ranks of a layer and micro-batch", routing.ranks));
  std::string out = fmt::format("{}: {} layers with experts\n\n{}", plan, routing.loads.size(), table.to_string());
  if (routing.dropped > 0.0005)
    out +=
        '\n' + paragraph(fmt::format("Rows dropped above the capacity of an expert: {:.1f} %.", 100 * routing.dropped));
  if (routing.balance.empty()) return out;
  Table steps(">step | >deviation | >MaxVio");
  for (const model::RoutingStatistics::Step& step : routing.balance)
    steps.add(spread_row(fmt::format("{}", step.step), step.experts));
  return out + "\nBiases of the first layer's experts move towards balance:\n\n" + steps.to_string();
}

}  // namespace plumbline::reports
