#include <fmt/format.h>

#include <algorithm>

#include "reports/charts/chart_frame.h"
#include "reports/text/campaign/campaign_report.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"
#include "sim/campaign/closed_form.h"

namespace plumbline::reports {
namespace {

constexpr double campaign_width = 960, campaign_height = 420;
constexpr PlotArea campaign_area = {64, 64, 872, 250};
constexpr double failures_y = 350, tick_height = 14;  // below the axis: a tick for each failure
constexpr std::string_view campaign_rules = ".progress { fill: none; stroke-width: 2; }";

bool is_failure(const sim::CampaignEvent& event) { return event.what.starts_with("failure"); }

}  // namespace

std::string campaign_svg(const CampaignReport& report) {
  const std::vector<sim::CampaignEvent>& events = report.answer.result.events;
  constexpr double day_s = 86400;
  Scale x, y;
  x.include(0);
  y.include(0);
  y.include(1);
  for (const sim::CampaignEvent& event : events) x.include(event.time_s / day_s);
  x.settle();
  Drawing drawing;
  const auto failures = std::ranges::count_if(events, is_failure);
  drawing.title(campaign_area.left,
                fmt::format("{} on {}", model_name(report.plan), hardware(report.plan, report.step.device)),
                fmt::format("one of {} campaigns: {} interruptions, {} days at goodput {}", report.answer.input.seeds,
                            failures, fixed(x.high(), 1), fixed(report.answer.result.mean_goodput, 3)));
  drawing.vertical_grid(campaign_area, x, x.ticks(), [](double days) { return fmt::format("{:g}", days); });
  drawing.horizontal_grid(campaign_area, y, y.ticks(), [](double share) { return fmt::format("{:g} %", share * 100); });
  drawing.frame(campaign_area);
  drawing.y_title(campaign_area, "tokens trained");
  const double ideal_s = sim::ideal_seconds(report.answer.input.phases);
  std::string path;
  const auto point = [&](double seconds, double progress) {
    path += fmt::format(" {:.1f},{:.1f}", campaign_area.x(x.share(seconds / day_s)),
                        campaign_area.y(y.share(std::min(1.0, progress))));
  };
  point(0, 0);
  for (const sim::CampaignEvent& event : events) {
    if (event.lost_s > 0) point(event.time_s, event.progress + event.lost_s / ideal_s);
    point(event.time_s, event.progress);
  }
  drawing.line("<polyline class=\"s0 progress\" points=\"{}\"/>", path.substr(1));
  for (const sim::CampaignEvent& event : events) {
    if (!is_failure(event)) continue;
    const double at = campaign_area.x(x.share(event.time_s / day_s));
    drawing.line(
        "<line class=\"s6\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"><title>day {3:.2f}: {4}, {5} of "
        "steps lost</title></line>",
        at, failures_y, failures_y + tick_height, event.time_s / day_s, escape_html(event.what),
        duration(event.lost_s));
  }
  drawing.line("<text x=\"{}\" y=\"{}\">days; below: each interruption</text>", campaign_area.left,
               failures_y + tick_height + 24);
  return drawing.document(campaign_width, campaign_height, "Progress of a training with its interruptions",
                          campaign_rules);
}

}  // namespace plumbline::reports
