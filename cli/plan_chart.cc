#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/plan_answer.h"
#include "reports/charts/line_chart.h"
#include "reports/text/format.h"

namespace plumbline::cli {

std::string plan_svg(const PlanAnswer& answer) {
  constexpr double million = 1e6;
  reports::LineChart chart;
  chart.title = fmt::format("{}: days against dollars", answer.name);
  chart.subtitle = "each point a cluster of one size with its best plan; a ring: nothing is both faster and cheaper";
  chart.x_title = "days";
  auto& panel = chart.panels.emplace_back(reports::LineChart::Panel{"million USD", true, {}});
  std::map<std::string, std::vector<std::size_t>> clusters;  // places
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const Offer& offer = answer.best(i).offer;
    if (offer.days && offer.usd) clusters[answer.sites[answer.order[i]].cluster].push_back(i);
  }
  for (auto& [name, places] : clusters) {
    std::ranges::sort(places, {}, [&](std::size_t i) { return *answer.best(i).offer.days; });
    auto& series = panel.series.emplace_back(reports::LineChart::Series{name, {}});
    for (const std::size_t i : places) {
      const Offer& offer = answer.best(i).offer;
      series.points.push_back({*offer.days, *offer.usd / million});
      if (answer.dominated[i] == false)
        chart.marks.push_back(
            {*offer.days, *offer.usd / million, fmt::format("{}, {} GPUs", name, reports::grouped(offer.gpus))});
    }
  }
  return reports::line_chart_svg(chart);
}

}  // namespace plumbline::cli
