#include <fmt/format.h>

#include "reports/text/compare/validation_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

std::string error_percent(double error) { return fmt::format("{:.1f}", 100 * error); }

std::string goal_text(const calibrate::ComponentGoal& goal) {
  return error_percent(goal.median) + (goal.p90 ? " / " + error_percent(*goal.p90) : "");
}

}  // namespace

std::string held_out_text(const std::string& gpu, const std::vector<calibrate::HeldOut>& tables) {
  const auto summaries = calibrate::summaries(tables);
  if (summaries.empty()) return "";
  Table table(fmt::format("{} | >fitted | >held out | >median % | >p90 % | >roofline | >p90", gpu));
  for (const calibrate::HeldOutSummary& family : summaries) {
    if (!family.table.empty()) continue;
    const auto add = [&](const std::string& name, const calibrate::HeldOutSummary& of) {
      table.row(name, of.fitted_rows, of.rows, error_percent(of.median), error_percent(of.p90),
                error_percent(of.roofline_median), error_percent(of.roofline_p90));
    };
    add(family.family, family);
    for (const calibrate::HeldOutSummary& of : summaries)
      if (of.family == family.family && !of.table.empty()) add("  " + of.table, of);
  }
  return table.to_string();
}

std::string component_table(const calibrate::ComponentComparison& comparison) {
  Table table("profile | family | >rows | >median % | >p90 % | >goal, p90 | | >roofline");
  for (const calibrate::ComponentErrors& errors : comparison.profiles)
    for (const calibrate::HeldOutSummary& of : errors.summaries) {
      if (!of.table.empty()) continue;
      const calibrate::ComponentGoal* goal = comparison.goal(of.family);
      table.row(errors.profile, of.family, of.rows, error_percent(of.median), error_percent(of.p90),
                goal == nullptr ? "" : goal_text(*goal),
                goal == nullptr    ? ""
                : goal->met_by(of) ? "met"
                                   : "missed",
                error_percent(of.roofline_median));
    }
  return fmt::format(
      "{}\n{}{}", comparison.definition.name, table.to_string(),
      paragraph("median and p90: of |predicted / measured - 1| on shapes that the fits left out, with the "
                "constants of the profile and what belongs to the software alone (its launches, its "
                "quantizing kernels, its rate where several were measured); roofline: the median "
                "of the same of datasheet peaks"));
}

}  // namespace plumbline::reports
