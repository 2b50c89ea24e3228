// Scores of intervals, as text and as a picture.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "reports/charts/bar_chart.h"
#include "reports/text/compare/validation_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using calibrate::IntervalDemand;
using calibrate::IntervalScore;
using calibrate::IntervalScores;

double share_of(const IntervalScore& score, std::size_t tenth) {
  return static_cast<double>(score.tenths[tenth]) / static_cast<double>(score.rows);
}

std::string tenth_name(std::size_t tenth) { return fmt::format("{}-{} %", tenth * 10, tenth * 10 + 10); }

std::string scores_table(const IntervalScores& scores) {
  Table table("set | >rows | >in P10-P90 | >half-width | >pinball | >of an MFU | >mean absolute | >bias");
  for (const auto& [name, ranges] : scores.scores) {
    const IntervalScore& score = ranges.step;
    if (score.rows == 0) continue;
    const IntervalScore& baseline = ranges.baseline;
    table.row(name, score.rows, fmt::format("{:.0f}%", score.coverage * 100),
              fmt::format("{:.1f}%", score.half_width * 100), fmt::format("{:.1f}%", score.pinball * 100),
              baseline.rows > 0 ? fmt::format("{:.1f}%", baseline.pinball * 100) : "-",
              fmt::format("{:.1f}%", score.middle.mean_absolute * 100),
              fmt::format("{:+.1f}%", score.middle.bias * 100));
  }
  return paragraph(
             "Intervals, nobody's own rows in them: the share of rows between P10 and P90 (of 80 % where intervals "
             "are right), median half-width, mean pinball loss of P10, P50 and P90 over the measured time, the same "
             "of a constant MFU with the location and spread of the other sets, errors of P50.") +
         table.to_string();
}

std::string tenths_bars(const IntervalScore& all) {
  Table table("tenth | >rows | ");
  for (std::size_t tenth = 0; tenth < all.tenths.size(); ++tenth) {
    const auto length = static_cast<std::size_t>(std::lround(share_of(all, tenth) * 100));
    table.row(tenth_name(tenth), fmt::format("{:.1f}%", share_of(all, tenth) * 100), std::string(length, '#'));
  }
  return paragraph("Rows by the tenth of their prediction that was measured, of 10 % each where intervals are right:") +
         table.to_string();
}

std::string memory_scores(const IntervalScores& scores) {
  Table table("set | >rows | >in P10-P90 | >half-width | >mean absolute | >bias");
  bool any = false;
  for (const auto& [name, ranges] : scores.scores) {
    const IntervalScore& score = ranges.memory;
    if (score.rows == 0) continue;
    any = true;
    table.row(name, score.rows, fmt::format("{:.0f}%", score.coverage * 100),
              fmt::format("{:.1f}%", score.half_width * 100), fmt::format("{:.1f}%", score.middle.mean_absolute * 100),
              fmt::format("{:+.1f}%", score.middle.bias * 100));
  }
  return any ? paragraph("The same of memory:") + table.to_string() : "";
}

std::string fit_verdicts(const IntervalScores& scores) {
  Table table("set | >rows | >fit | >wrong | >do not fit | >wrong | >Brier");
  bool any = false;
  for (const auto& [name, ranges] : scores.scores) {
    const calibrate::FitVerdicts& fits = ranges.fits;
    if (fits.rows == 0) continue;
    any = true;
    table.row(name, fits.rows, fits.fit, fits.fit_wrong, fits.unfit, fits.unfit_wrong,
              fmt::format("{:.3f}", fits.brier));
  }
  return any ? paragraph(
                   "Rows that ran or ended for lack of memory: how many are predicted to fit (a probability of 95 % or "
                   "more) or not to (below 5 %), how many of each wrongly, and the mean square of the probability less "
                   "what happened (1 or 0):") +
                   table.to_string()
             : "";
}

// Returns what the aims ask for and the scores do not have.
std::vector<std::string> short_of(const IntervalDemand& demand, const IntervalScores& scores) {
  std::vector<std::string> found;
  const IntervalScore& all = scores.scores.back().second.step;
  if (demand.aim_coverage && (all.coverage < demand.aim_coverage->first || all.coverage > demand.aim_coverage->second))
    found.push_back(fmt::format("coverage {} instead of {} to {}", percent(all.coverage),
                                percent(demand.aim_coverage->first), percent(demand.aim_coverage->second)));
  for (const auto& [name, ranges] : scores.scores) {
    const IntervalScore& score = ranges.step;
    if (score.rows >= IntervalDemand::rows_of_a_set && score.coverage < demand.aim_set_coverage.value_or(0))
      found.push_back(fmt::format("{}: coverage {} instead of {} or more", name, percent(score.coverage),
                                  percent(*demand.aim_set_coverage)));
  }
  const auto limit = [&](std::string_view what, double value, std::optional<double> aim) {
    if (aim && value > *aim) found.push_back(fmt::format("{} {} instead of {}", what, percent(value), percent(*aim)));
  };
  limit("half-width", all.half_width, demand.aim_half_width);
  limit("mean absolute error", all.middle.mean_absolute, demand.aim_mean_absolute_error);
  limit("absolute bias", std::abs(all.middle.bias), demand.aim_bias);
  return found;
}

std::string verdict(const IntervalDemand& demand, const IntervalScores& scores) {
  const std::vector<std::string> missed = short_of(demand, scores);
  return paragraph(fmt::format("Tolerated is a coverage of {} to {} over all: {}{}.", percent(demand.coverage.first),
                               percent(demand.coverage.second), scores.holds() ? "within" : "EXCEEDED",
                               missed.empty() ? "" : fmt::format("; short of aim: {}", fmt::join(missed, "; "))));
}

BarChart::Panel panel_of(const std::string& name, const IntervalScore& score) {
  BarChart::Panel panel;
  panel.title = fmt::format("{}: {} rows, {:.0f} % between P10 and P90", name, score.rows, score.coverage * 100);
  panel.x_title = "% of the rows";
  for (std::size_t tenth = 0; tenth < score.tenths.size(); ++tenth) {
    const double share = share_of(score, tenth) * 100;
    panel.rows.push_back({tenth_name(tenth),
                          {{0, share, 0, fmt::format("{}: {} rows", tenth_name(tenth), score.tenths[tenth])}},
                          fmt::format("{:.1f} %", share)});
  }
  panel.marks = {{10, "10 %"}};
  return panel;
}

}  // namespace

std::string interval_table(const IntervalScores& scores) {
  if (scores.scores.empty()) return "";
  return scores_table(scores) + "\n" + tenths_bars(scores.scores.back().second.step) + "\n" + memory_scores(scores) +
         fit_verdicts(scores) + (scores.demand ? verdict(*scores.demand, scores) : "");
}

std::string interval_chart_svg(const IntervalScores& scores) {
  BarChart chart;
  chart.title = "Probability integral transform of measured steps";
  chart.subtitle = "rows by the tenth of their prediction that was measured; nobody's own rows are in it";
  for (const auto& [name, ranges] : scores.scores)
    if (ranges.step.rows > 0) chart.panels.push_back(panel_of(name, ranges.step));
  if (!scores.scores.empty() && scores.scores.back().second.memory.rows > 0)
    chart.panels.push_back(panel_of("memory, all", scores.scores.back().second.memory));
  return bar_chart_svg(chart);
}

}  // namespace plumbline::reports
