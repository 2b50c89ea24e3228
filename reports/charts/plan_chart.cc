#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/charts/line_chart.h"
#include "reports/text/format.h"
#include "reports/text/plan_report.h"

namespace plumbline::reports {

std::string plan_svg(const sim::PlanAnswer& answer) {
  constexpr double million = 1e6;
  LineChart chart;
  chart.title = fmt::format("{}: days against dollars", answer.name);
  chart.subtitle = "each point a cluster of one size with its best plan; a ring: nothing is both faster and cheaper";
  chart.x_title = "days";
  auto& panel = chart.panels.emplace_back(LineChart::Panel{"million USD", true, {}});
  std::map<std::string, std::vector<std::size_t>> clusters;  // places
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const sim::PlanCost& cost = answer.best(i).cost;
    if (cost.days && cost.usd) clusters[answer.options[answer.order[i]].cluster].push_back(i);
  }
  for (auto& [name, places] : clusters) {
    std::ranges::sort(places, {}, [&](std::size_t i) { return *answer.best(i).cost.days; });
    auto& series = panel.series.emplace_back(LineChart::Series{name, {}});
    for (const std::size_t i : places) {
      const sim::PlanCost& cost = answer.best(i).cost;
      series.points.push_back({*cost.days, *cost.usd / million});
      if (answer.dominated[i] == false)
        chart.marks.push_back({*cost.days, *cost.usd / million, fmt::format("{}, {} GPUs", name, grouped(cost.gpus))});
    }
  }
  return line_chart_svg(chart);
}

}  // namespace plumbline::reports
