#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reports/text/compare/validation_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {

// Predictions that were made before their measurement, as text.

namespace {

using calibrate::LedgerEntry;

// A quantity of an entry that has been measured.
struct Scored {
  const model::Quantiles& predicted;
  double measured;
};

std::string name_of(const LedgerEntry& entry) { return std::filesystem::path(entry.path).stem().string(); }

std::string interval_text(const model::Quantiles& q, const std::function<std::string(double)>& text) {
  return fmt::format("{} .. {} .. {}", text(q.p10), text(q.p50), text(q.p90));
}

void add_score(Table& table, const std::string& name, const Scored& scored,
               const std::function<std::string(double)>& text) {
  const auto& [predicted, measured] = scored;
  table.add({name, interval_text(predicted, text), text(measured), predicted.contains(measured) ? "inside" : "outside",
             fixed(predicted.share_below(measured), 2), signed_percent(predicted.p50 / measured - 1)});
}

constexpr std::string_view ledger_titles = "entry | >P10 .. P50 .. P90 | >measured | | >probability | >P50 is off";

}  // namespace

std::string ledger_table(const std::vector<LedgerEntry>& entries) {
  Table times(ledger_titles), peaks(ledger_titles);
  Table open("entry | predicted | >P10 .. P50 .. P90");
  std::size_t measured = 0, inside = 0, with_peak = 0;
  for (const LedgerEntry& entry : entries) {
    if (!entry.measured) {
      open.add({name_of(entry), entry.date, interval_text(entry.time, duration)});
      continue;
    }
    ++measured;
    if (entry.time.contains(entry.measured->time_s)) ++inside;
    add_score(times, name_of(entry), {entry.time, entry.measured->time_s}, duration);
    if (!entry.measured->peak_bytes) continue;
    ++with_peak;
    add_score(peaks, name_of(entry), {entry.peak_bytes, *entry.measured->peak_bytes},
              [](double bytes) { return number(bytes / 1e9); });
  }
  std::string out;
  if (measured > 0)
    out += wrapped(
               "Step times that were predicted before they were measured. The probability is what the prediction "
               "gave to a smaller value.") +
           times.to_string() +
           paragraph(
               fmt::format("{} of {} lie between P10 and P90, which is to hold for eight of ten.", inside, measured));
  if (with_peak > 0) out += "\nPeak memory of the fullest rank, GB.\n" + peaks.to_string();
  if (measured < entries.size())
    out += fmt::format("{}Not measured yet.\n{}", out.empty() ? "" : "\n", open.to_string());
  return out;
}

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
